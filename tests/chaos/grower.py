"""Runs ``ottla cluster grow`` and kills it at one of its disk operations: ``python -m tests.chaos.grower KILL_AT ARGUMENTS``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from ottla.cli import main as ottla
from ottla.storage.real_filesystem import RealFile, RealFilesystem
from tests.chaos.points import die_with_parent

CHANGING = {
    RealFile: ("append", "sync"),
    RealFilesystem: ("write_file", "sync_file", "sync_dir", "rename", "unlink", "make_dir", "remove_dir", "remove_empty_dir"),
}
"""Methods with which the command changes the disk, by class."""


def kill_before(number: int) -> None:
    """Kill this process before the operation with this number, counted from 0."""
    done = 0

    def wrapped(operation: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal done
            if done == number:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
            return operation(*arguments, **options)

        return counted

    for owner, names in CHANGING.items():
        for name in names:
            setattr(owner, name, wrapped(getattr(owner, name)))


def main() -> int:
    die_with_parent()
    kill_before(int(sys.argv[1]))
    return ottla(["cluster", "grow", *sys.argv[2:]])


if __name__ == "__main__":
    raise SystemExit(main())
