"""Containers of the image for tests of the examples."""

from tests.container.conftest import started

__all__ = ["started"]
