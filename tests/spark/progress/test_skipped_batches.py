"""Batches that Spark did not pass to the sink: when a stream may continue after them, and how they are reported. These tests need
no broker."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.spark.errors import PipelineError
from ottla.spark.progress.marks import NO_BATCH, Mark
from ottla.spark.progress.progress_topic import ProgressRecord, ProgressTopic
from ottla.spark.progress.skipped_batches import describe, may_skip, skipped_batches
from tests.spark.progress.test_marks import FakeTransaction, ends, stream, written


def in_topic(mark: Mark | None) -> ProgressTopic:
    cluster: Any = None
    progress = ProgressTopic(cluster, "progress", "shop")
    progress.last = None if mark is None else ProgressRecord(mark)
    return progress


@pytest.mark.parametrize(
    ("last", "batch", "skipped"),
    [
        (None, 0, []),
        (None, 2, [0, 1]),
        (Mark("q", NO_BATCH, "r"), 1, [0]),
        (Mark("q", 4, "r"), 4, []),
        (Mark("q", 4, "r"), 5, []),
        (Mark("q", 4, "r"), 7, [5, 6]),
        (Mark("q", 4, "r"), 3, []),
        (Mark("another", 4, "r"), 1, [0]),
    ],
)
def test_batches_without_a_progress_record_before_the_current_batch_count_as_skipped(
    last: Mark | None, batch: int, skipped: list[int]
) -> None:
    assert list(skipped_batches(last, "q", batch)) == skipped


@pytest.mark.parametrize(
    ("last", "progress", "goes_on"),
    [
        (Mark("q", 4, "r"), in_topic(Mark("q", 4, "r")), True),
        (Mark("q", 4, "r"), in_topic(Mark("q", 3, "r")), False),
        (Mark("q", 4, "r"), in_topic(None), False),
        (Mark("q", 4, "r"), None, False),
        (Mark("q", NO_BATCH, "r"), None, True),
        (Mark("another", NO_BATCH, "r"), None, False),
        (None, in_topic(None), False),
    ],
)
def test_gap_in_batch_numbers_is_accepted_only_if_progress_is_certain(
    last: Mark | None, progress: ProgressTopic | None, goes_on: bool
) -> None:
    """Progress may be missing because a group was reset or deleted. A batch that is certainly new may follow skipped batches."""
    assert may_skip(last, progress, "q", lambda: False) == goes_on
    assert may_skip(last, progress, "q", lambda: True)


@pytest.mark.parametrize("committed", [[], [Mark("q", NO_BATCH, "r")], [Mark("q", 2, "r")]])
def test_gap_in_batch_numbers_is_refused_unless_skipping_is_allowed(committed: list[Mark]) -> None:
    transaction = FakeTransaction(committed)
    with pytest.raises(PipelineError, match="the checkpoint is at batch 4"):
        stream(transaction).write("q", 4, written, ends(4))
    assert transaction.ends == []
    sink = stream(transaction)
    assert not sink.write("q", 4, written, ends(4), may_skip=True).is_replay
    assert sink.write("q", 4, written, ends(4), may_skip=True).is_replay
    assert transaction.ends == [True]


def test_restored_older_checkpoint_is_not_a_gap_in_batch_numbers() -> None:
    with pytest.raises(PipelineError, match="an older checkpoint was restored"):
        stream(FakeTransaction([Mark("q", 4, "r")])).write("q", 3, written, ends(3), may_skip=True)


def test_skipped_spark_batches_are_reported_with_their_offsets() -> None:
    begin = {("t", 0): 10, ("t", 1): 5}
    assert describe(range(3, 4), begin, {("t", 0): 12, ("t", 1): 5}) == "batch 3 (offsets of t-0: 10 to 12)"
    assert describe(range(3, 6), begin, {("t", 0): 12, ("u", 0): 7}) == "batches 3 to 5 (offsets of t-0: 10 to 12, u-0: up to 7)"
    assert describe(range(3, 4), begin, begin) == "batch 3 (no offsets were read)"
    assert describe(range(3, 4), {}, {}) == "batch 3 (whose input has no Kafka offsets)"
    many = {("t", index): 1 for index in range(25)}
    assert describe(range(1), {}, many).endswith("t-19: up to 1, and 5 more partitions)")
