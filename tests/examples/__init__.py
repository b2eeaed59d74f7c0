"""Tests of projects in examples/ that are too large for one file."""
