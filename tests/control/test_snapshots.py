"""A snapshot that the disk refuses."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.control.asking import Refused
from ottla.control.commands import COMMANDS


def test_a_full_disk_is_named_by_the_path_that_was_asked_for() -> None:
    async def snapshot(path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    steered = cast(Any, SimpleNamespace(serving=SimpleNamespace(directory="/data", snapshot=snapshot)))
    (command,) = [command for command in COMMANDS if command.path == "/v1/snapshot"]
    with pytest.raises(Refused, match="no snapshot at /full/s: No space left on device; nothing is left of it"):
        asyncio.run(command.run(steered, command.parsed(b'{"path": "/full/s"}')))
