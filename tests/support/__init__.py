"""Helpers that tests of several packages share: levels and results of a run, clients, test worlds and waiting."""
