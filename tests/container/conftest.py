"""Containers of the image. `tests/examples` has the same fixture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.running import Started, started_containers, unshare
from tools.kafka import Unavailable


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Function that creates and starts a container. All of its containers are removed when the test ends."""
    try:
        unshare()
    except Unavailable as missing:
        pytest.skip(str(missing))
    with started_containers(tmp_path) as start:
        yield start
