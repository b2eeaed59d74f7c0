"""Renames of a log's segments, each retried until it succeeds."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.storage.segment import DELETED_SUFFIX, Segment


class OwedRenames:
    """The pending renames of one log's segments, in order, and the renamed files that are to be removed."""

    __slots__ = ("_owed", "_retired")

    def __init__(self) -> None:
        self._owed: list[tuple[Segment, str]] = []
        self._retired: list[str] = []

    @property
    def are_owed(self) -> bool:
        """Whether there are renames to retry."""
        return bool(self._owed)

    @property
    def has_retired(self) -> bool:
        return bool(self._retired)

    def add(self, segments: Iterable[Segment], suffix: str) -> None:
        """Add renames of the segments' files to names with ``suffix``, which is empty for segments in service."""
        self._owed += [(segment, suffix) for segment in segments]

    def finish(self) -> None:
        """Execute the pending renames. Raises OSError if a rename fails; the next call begins with the failed rename."""
        while self._owed:
            segment, suffix = self._owed[0]
            segment.close()
            paths = segment.rename(suffix)
            del self._owed[0]
            if suffix == DELETED_SUFFIX:
                self._retired += paths

    def take_retired(self) -> list[str]:
        """The files that were renamed to ``*.deleted`` since the last call. The caller removes them."""
        retired, self._retired = self._retired, []
        return retired
