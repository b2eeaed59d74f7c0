"""Reads a broker's segment files without the broker: what is committed, where it lies, and its records as columns."""
