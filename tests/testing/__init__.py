"""Tests of the handles and the pytest plugin that need no broker."""
