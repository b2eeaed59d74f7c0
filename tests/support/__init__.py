"""Helpers that tests of several packages share: levels and results of a run, clients, simulated environments and waits."""
