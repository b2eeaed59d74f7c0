"""Reports of stray directories: the topic of their data, whether another topic hides it, and the command that recovers the data.

Health, the description of a cluster, the console and the control API show the same reports. A partition is recovered with ``ottla
adopt``, which copies it into a directory as a topic, and a copy of the metadata log with ``ottla cluster rebuild-controller``.
"""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

import msgspec

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.topic_names import check_topic_name
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC
from ottla.protocol.uuids import uuid_text
from ottla.storage.identity import METADATA_DIRECTORY
from ottla.storage.names import name_before_stray
from ottla.storage.stray_directories import StrayDirectory

STRAYS_NAMED = 20
"""Maximum number of stray directories of a broker that are listed. Further directories are only counted."""
LINE_PREFIX = "stray directory "
"""Prefix of each line about stray directories, which distinguishes it from the paths of log directories in DescribeLogDirs."""


class StrayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a stray directory. ``topic_id`` is None if the directory has none, ``size_bytes`` if the size is not known
    (yet).

    ``is_hidden``: a topic of the name exists, with another id or with a directory of its own, so the data needs another name.
    """

    directory: str
    size_bytes: int | None
    topic: str
    partition: int
    topic_id: str | None
    is_hidden: bool
    way_back: str

    @property
    def line(self) -> str:
        size = "an unknown number of bytes" if self.size_bytes is None else f"{self.size_bytes:,} bytes"
        topic_id = "without a topic id" if self.topic_id is None else f"topic id {self.topic_id}"
        hidden = f"; a topic {self.topic} exists, which hides it" if self.is_hidden else ""
        return f"{LINE_PREFIX}{self.directory}: {size} of {self.topic}-{self.partition}, {topic_id}{hidden}; {self.way_back}"


def report(stray: StrayDirectory, state: ClusterState, data_dir: str) -> StrayReport:
    """Report a stray directory in ``data_dir``, whose cluster has the topics of ``state``."""
    name = stray.path.rpartition("/")[2]
    directory = f"{data_dir}/{name}"
    is_copy = name_before_stray(name) == METADATA_DIRECTORY
    same = None if stray.topic_id is None else state.topics_by_id.get(stray.topic_id)
    topic = stray.topic if same is None else same.name
    is_hidden = topic in state.topics and not is_copy
    return StrayReport(
        directory=directory,
        size_bytes=stray.size_bytes,
        topic=topic,
        partition=stray.partition,
        topic_id=None if stray.topic_id is None else uuid_text(stray.topic_id),
        is_hidden=is_hidden,
        way_back=_of_copy(directory) if is_copy else _of_partition(directory, topic, state, data_dir, is_hidden=is_hidden),
    )


def _of_copy(directory: str) -> str:
    return (
        "if the controller has lost what this copy of the metadata has: ottla cluster rebuild-controller --data-dir NEW_DIR"
        f" --from {quote(directory)} --from OTHER_BROKER_DIR"
    )


def _of_partition(directory: str, topic: str, state: ClusterState, data_dir: str, *, is_hidden: bool) -> str:
    command = f"ottla adopt --from {quote(directory)} --data-dir"
    # A coordinator's topic gets another name: if partitions were missing, groups and transactional ids would map to other
    # partitions.
    wants_name = not _is_name(topic) or topic in INTERNAL_TOPICS or topic == METADATA_TOPIC or (is_hidden and state.is_alone)
    renamed = f" --as {f'{topic[:200]}-restored' if _is_name(topic) else 'restored'}" if wants_name else ""
    if state.is_alone:
        return f"to have it as a topic, stop the broker, then: {command} {quote(data_dir)}{renamed}"
    return f"to have it as a topic of another broker: {command} NEW_DIR{renamed}"


def _is_name(topic: str) -> bool:
    try:
        check_topic_name(topic)
    except KafkaError:
        return False
    return True


class StraySummary(msgspec.Struct, frozen=True, kw_only=True):
    """The stray directories of one broker: their number, their size as far as it is known, and the first `STRAYS_NAMED`."""

    count: int
    size_bytes: int
    named: list[StrayReport]

    @property
    def lines(self) -> list[str]:
        """A line for each listed directory, and one line for all further directories."""
        lines = [report.line for report in self.named]
        if self.count > len(self.named):
            left, data_dir = self.count - len(self.named), self.named[0].directory.rpartition("/")[0]
            lines.append(f"{LINE_PREFIX}and {left:,} more, {self.size_bytes:,} bytes in all: ls -d {quote(data_dir)}/*-stray")
        return lines


def summary(strays: Iterable[StrayDirectory], count: int, size_bytes: int, state: ClusterState, data_dir: str) -> StraySummary:
    """Summarise ``count`` stray directories, of which ``strays`` are the first."""
    return StraySummary(count=count, size_bytes=size_bytes, named=[report(stray, state, data_dir) for stray in strays])
