"""Numbered DataFrames of ``write_once`` with one name: which count as written, and which number is next."""

from __future__ import annotations

import pytest

from ottla.spark.errors import PipelineError
from ottla.spark.progress.marks import NO_BATCH, Mark
from ottla.spark.sink.frame_numbers import check_frame_number, is_written

THIRD = Mark(query="frames", batch=2, run="r")


@pytest.mark.parametrize(
    ("last", "number", "expected"),
    [(None, 0, False), (THIRD, 0, True), (THIRD, 2, True), (THIRD, 3, False), (THIRD, -1, False)],
)
def test_write_once_dataframe_up_to_the_last_committed_number_counts_as_written(
    last: Mark | None, number: int, expected: bool
) -> None:
    assert is_written(last, number) is expected


@pytest.mark.parametrize(("last", "number"), [(None, 0), (THIRD, 3), (Mark(query="frames", batch=NO_BATCH, run="r"), 0)])
def test_write_once_dataframe_with_the_next_number_may_be_written(last: Mark | None, number: int) -> None:
    check_frame_number("orders", number, last)


@pytest.mark.parametrize(("last", "number"), [(None, 1), (THIRD, 4), (THIRD, -1)])
def test_write_once_dataframe_with_an_unexpected_number_is_refused(last: Mark | None, number: int) -> None:
    with pytest.raises(PipelineError, match=rf"frame {number} of 'orders' cannot be written"):
        check_frame_number("orders", number, last)
