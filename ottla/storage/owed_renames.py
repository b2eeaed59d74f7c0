"""Renames of a log's segments that the disk may refuse half-way: each is tried again until it is done."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.storage.segment import DELETED_SUFFIX, Segment


class OwedRenames:
    """The renames that one log owes its disk, in order, and the files that nobody was told of yet to remove."""

    __slots__ = ("_owed", "_retired")

    def __init__(self) -> None:
        self._owed: list[tuple[Segment, str]] = []
        self._retired: list[str] = []

    @property
    def are_owed(self) -> bool:
        """Whether the disk has refused to rename files of segments that were removed or replaced."""
        return bool(self._owed)

    @property
    def has_retired(self) -> bool:
        return bool(self._retired)

    def add(self, segments: Iterable[Segment], suffix: str) -> None:
        """Segments that are in service no more, or again, and whose files are to have this suffix."""
        self._owed += [(segment, suffix) for segment in segments]

    def finish(self) -> None:
        """Raises OSError where the disk refuses one; the next call goes on there."""
        while self._owed:
            segment, suffix = self._owed[0]
            segment.close()
            paths = segment.rename(suffix)
            del self._owed[0]
            if suffix == DELETED_SUFFIX:
                self._retired += paths

    def take_retired(self) -> list[str]:
        """Files that were renamed to ``*.deleted`` and that nobody was told of yet."""
        retired, self._retired = self._retired, []
        return retired
