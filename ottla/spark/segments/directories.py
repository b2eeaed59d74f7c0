"""Finds the partitions of a topic in the directories of a broker's ``log.dirs``."""

from __future__ import annotations

from collections.abc import Collection

from ottla.spark.errors import PipelineError
from ottla.spark.segments.directory import Directory, View
from ottla.spark.segments.unwritten import partitions_without_records

Placement = dict[int, Directory | None]
"""The directory of each partition; None for a partition without records."""
EMPTY = View(start=0, end=0, last_stable_offset=0, aborted=[])
"""Offsets of a partition without records."""


class Directories:
    """All directories of a broker's comma-separated ``log.dirs``. Each partition is in one directory."""

    def __init__(self, paths: str) -> None:
        """Raise `PipelineError` for a directory that does not exist."""
        self._paths = paths
        self._all = [Directory(path.strip()) for path in paths.split(",") if path.strip()]

    def close(self) -> None:
        for directory in self._all:
            directory.close()

    def of_topic(self, topic: str, chosen: Collection[int] = ()) -> Placement:
        """Find the directory of each partition.

        The metadata log is searched for partitions without records if no partition has a directory, or if one in ``chosen`` has
        none. Raises `PipelineError` for a topic or a chosen partition that does not exist, and for a partition in two directories.
        """
        placement: Placement = {}
        for directory in self._all:
            for index in directory.partitions(topic):
                if (other := placement.get(index)) is not None:
                    raise PipelineError(f"{topic}-{index} is in {other.path} and in {directory.path}: give one of them")
                placement[index] = directory
        if not placement or not placement.keys() >= set(chosen):
            placement = dict.fromkeys(partitions_without_records(self._all, topic)) | placement
        if not placement:
            raise PipelineError(f"no partition of topic {topic!r} is in {self._paths}")
        for index in sorted(set(chosen) - placement.keys()):
            raise PipelineError(f"{topic}-{index} is not in {self._paths}")
        return dict(sorted(placement.items()))

    @staticmethod
    def topic_id(topic: str, placement: Placement) -> str | None:
        """Return the id of a topic; None if unknown. Raises `PipelineError`."""
        ids = (directory.topic_id(topic, index) for index, directory in placement.items() if directory is not None)
        return next((topic_id for topic_id in ids if topic_id is not None), None)

    @staticmethod
    def views(topic: str, placement: Placement) -> dict[int, View]:
        """Return the current offsets and aborted transactions of each partition. Raises `PipelineError`."""
        return {i: EMPTY if directory is None else directory.view(topic, i) for i, directory in placement.items()}
