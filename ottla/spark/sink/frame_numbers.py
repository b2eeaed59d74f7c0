"""Checks before a frame that is not a stream is written: its number, and whether a stream uses the transactional id."""

from __future__ import annotations

import re
from typing import Final

from ottla.client.cluster import BrokerConnections
from ottla.spark.errors import PipelineError
from ottla.spark.progress.marks import group_of, read_mark

_STREAM: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of a stream's id, which Spark generates (StreamMetadata)."""


def check_no_stream(cluster: BrokerConnections, transactional_id: str) -> None:
    """Raise `PipelineError` if a stream uses the transactional id. Its progress record may be in the group only."""
    mark = read_mark(cluster, group_of(transactional_id), is_stable=False)
    if mark is not None and _STREAM.fullmatch(mark.query):
        raise PipelineError(f"a stream uses {transactional_id!r}: give write_once another transactional.id")


def check_frame_number(name: str, number: int, expected: int) -> None:
    if number != expected:
        raise PipelineError(
            f"frame {number} of {name!r} cannot be written: the next one is frame {expected}, because the frames of a name"
            " are numbered from 0 on without a gap"
        )
