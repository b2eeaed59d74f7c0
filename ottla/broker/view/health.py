"""The broker as a whole: addresses, disk problems, stray directories, and the number of unexpected errors."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.metadata.strays import Strays
from ottla.operations.stray_reports import StraySummary
from ottla.storage.log_dir import LogDirectory


class Ports(Protocol):
    cluster_id: str
    directory: LogDirectory
    lifecycle: Lifecycle
    strays: Strays

    @property
    def bootstrap(self) -> str: ...

    @property
    def is_sound(self) -> bool: ...

    @property
    def problems(self) -> list[str]: ...


NO_STRAYS = StraySummary(count=0, size_bytes=0, named=[])


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The response to ``GET /v1/state`` of the control API, with its fields in this order.

    ``problems`` has a line for each log that is offline or damaged. ``is_sound``: there are no problems, and the log directory
    accepts writes.
    """

    bootstrap: str
    cluster_id: str
    data_dir: str
    is_sound: bool
    problems: list[str]
    strays: StraySummary
    unexpected_errors: int


def health(ports: Ports) -> Health:
    problems = ports.problems
    return Health(
        bootstrap=ports.bootstrap,
        cluster_id=ports.cluster_id,
        data_dir=ports.directory.absolute_path,
        is_sound=ports.is_sound and not problems,
        problems=problems,
        strays=ports.strays.summary(),
        unexpected_errors=ports.lifecycle.unexpected_errors,
    )
