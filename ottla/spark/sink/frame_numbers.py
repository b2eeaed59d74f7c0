"""Checks before a frame that is not a stream is written: its number, and whether a stream uses the transactional id."""

from __future__ import annotations

import re
from typing import Final

from ottla.client.cluster import BrokerConnections
from ottla.spark.errors import PipelineError
from ottla.spark.progress.marks import Mark, group_of, read_mark

_STREAM: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of a stream's id, which Spark generates (StreamMetadata)."""


def check_no_stream(cluster: BrokerConnections, transactional_id: str) -> None:
    """Raise `PipelineError` if a stream uses the transactional id. A stream without a progress topic stores its progress as
    the committed offset of a consumer group."""
    mark = read_mark(cluster, group_of(transactional_id), is_stable=False)
    if mark is not None and _STREAM.fullmatch(mark.query):
        raise PipelineError(f"a stream uses {transactional_id!r}: give write_once another transactional.id")


def is_written(last: Mark | None, number: int) -> bool:
    """Whether a frame is committed, as the last progress record shows."""
    return last is not None and 0 <= number <= last.batch


def check_frame_number(name: str, number: int, last: Mark | None) -> None:
    """Raise `PipelineError` unless the frame is the one after the last committed frame of this name."""
    expected = 0 if last is None else last.batch + 1
    if number != expected:
        raise PipelineError(
            f"frame {number} of {name!r} cannot be written: the next one is frame {expected}, because the frames of a name"
            " are numbered from 0 on without a gap"
        )
