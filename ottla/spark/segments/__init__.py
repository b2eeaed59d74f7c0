"""Reading a broker's segment files without a broker: what is committed, where it lies, and its records as columns."""
