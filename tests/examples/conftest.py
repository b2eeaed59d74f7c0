"""Containers of the image for tests of the examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.container.running import Container, unshare
from tools.kafka import Unavailable


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Container]]:
    """Function that creates and starts a container. All of its containers are removed when the test ends."""
    try:
        unshare()
    except Unavailable as missing:
        pytest.skip(str(missing))
    containers: list[Container] = []

    def start(**options: Any) -> Container:
        container = Container(tmp_path / f"container-{len(containers)}", **options)
        containers.append(container)
        container.start()
        return container

    yield start
    for container in containers:
        container.remove()
