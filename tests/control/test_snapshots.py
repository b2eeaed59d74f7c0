"""A snapshot that the disk refuses."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.control.asking import Refused
from ottla.control.commands import COMMANDS


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (None, "No space left on device"),
        ("/full/s", "No space left on device"),
        ("/data/t-0/0.log", "/data/t-0/0.log: No space left on device"),
    ],
)
def test_a_full_disk_is_named_by_the_path_that_was_asked_for(file: str | None, told: str) -> None:
    async def snapshot(path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", file)

    steered = cast(Any, SimpleNamespace(serving=SimpleNamespace(directory="/data", snapshot=snapshot)))
    (command,) = [command for command in COMMANDS if command.path == "/v1/snapshot"]
    with pytest.raises(Refused) as refused:
        asyncio.run(command.run(steered, command.parsed(b'{"path": "/full/s"}')))
    assert str(refused.value) == f"no snapshot at /full/s: {told}; nothing is left of it"
