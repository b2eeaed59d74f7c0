"""Tests of the browser console."""
