"""Stray directories, which a broker renamed to ``NAME.ID-stray`` because their topic does not exist.

The broker never reads or removes them, so an operator has to be informed of them. A starting broker finds them in the log
directory, and `LogDirectory.set_aside` adds new stray directories. Each size is computed once, because stray directories do not
change.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import islice

import msgspec

from ottla.protocol.primitives import NO_UUID
from ottla.protocol.steps import in_thread
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.checkpoints import read_partition_metadata
from ottla.storage.filesystem import Filesystem
from ottla.storage.names import name_before_stray, parse_directory_name

CHECKED_AT_ONCE = 500
"""Maximum number of stray directories whose existence `StrayDirectories.first` checks, in about a millisecond."""


class StrayDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """A stray directory, and the partition to which it belonged.

    ``topic`` is cut off after 200 characters. ``topic_id`` is None if the directory has none. ``size_bytes`` is None until the
    directory is measured, and if it cannot be read.
    """

    path: str
    topic: str
    partition: int
    topic_id: bytes | None = None
    size_bytes: int | None = None


def stray_partition(name: str) -> TopicPartition | None:
    """The partition whose directory was renamed to ``name``; None for names of other files."""
    before = name_before_stray(name)
    return None if before is None else parse_directory_name(before)


def unmeasured(directory: str, name: str) -> StrayDirectory | None:
    """A stray directory without topic id and size, from its name; None for names of other files."""
    where = stray_partition(name)
    return None if where is None else StrayDirectory(path=f"{directory}/{name}", topic=where[0], partition=where[1])


def measured(fs: Filesystem, stray: StrayDirectory) -> StrayDirectory:
    """The directory with its topic id and size in bytes, as far as they can be read. May run in any thread."""
    topic_id = size_bytes = None
    with suppress(OSError):
        topic_id = read_partition_metadata(fs, stray.path)
    with suppress(OSError):
        size_bytes = sum(fs.open(f"{stray.path}/{name}").size for name in fs.list_dir(stray.path))
    return msgspec.structs.replace(stray, topic_id=None if topic_id == NO_UUID else topic_id, size_bytes=size_bytes)


def strays_in(fs: Filesystem, directory: str) -> list[StrayDirectory]:
    """All stray directories of a log directory that no broker uses, sorted by name."""
    found = (unmeasured(directory, name) for name in fs.list_dir(directory))
    return [measured(fs, stray) for stray in found if stray is not None and fs.is_dir(stray.path)]


class StrayDirectories:
    """The stray directories of a log directory in use, in the order in which they were found."""

    __slots__ = ("_directory", "_fs", "_known", "_on_found", "_unmeasured")

    def __init__(self, fs: Filesystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self._known: dict[str, StrayDirectory] = {}
        self._unmeasured: dict[str, None] = {}
        self._on_found: Callable[[], None] | None = None

    def watch(self, on_found: Callable[[], None]) -> None:
        """Set the function that is called for each new stray directory, and runs `measure`."""
        self._on_found = on_found

    def note(self, name: str) -> None:
        """Add a directory of the log directory if its name is that of a stray directory."""
        stray = unmeasured(self._directory, name)
        if stray is not None and name not in self._known:
            self._known[name] = stray
            self._unmeasured[name] = None
            if self._on_found is not None:
                self._on_found()

    @property
    def is_measured(self) -> bool:
        return not self._unmeasured

    async def measure(self) -> None:
        """Measure each new stray directory in a worker thread, because a directory may have any number of files."""
        while self._unmeasured:
            name = next(iter(self._unmeasured))
            del self._unmeasured[name]
            stray, found = self._known.get(name), list[StrayDirectory]()
            if stray is not None:
                await in_thread(lambda stray=stray, found=found: found.append(measured(self._fs, stray)))  # type: ignore[misc]
            if found and name in self._known:
                self._known[name] = found[0]

    def first(self, most: int) -> list[StrayDirectory]:
        """The first ``most`` stray directories. Forgets removed directories among the first `CHECKED_AT_ONCE`."""
        for name, stray in list(islice(self._known.items(), CHECKED_AT_ONCE)):
            with suppress(OSError):
                if not self._fs.is_dir(stray.path):
                    del self._known[name]
        return list(islice(self._known.values(), most))

    def __len__(self) -> int:
        return len(self._known)

    @property
    def size_bytes(self) -> int:
        """Total size in bytes of the measured stray directories."""
        return sum(stray.size_bytes or 0 for stray in self._known.values())
