"""Behaviour of a stream after a failure, depending on the coordinator's responses. Without Spark and a broker."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.errors import Fenced, PipelineError
from ottla.spark.progress.marks import Mark
from ottla.spark.sink.exactly_once import ExactlyOnce, Tasks
from ottla.spark.sink.task_writer import Written

pytestmark = pytest.mark.entry("PIP-01")

ENDS = InputEnds("", {("in", 0): 1})


class Coordinated:
    """A transaction whose next call with a name in ``fails`` raises the given error."""

    def __init__(self) -> None:
        self.transactional_id = "shop"
        self.producer = 0
        self.committed: Mark | None = None
        self.marked: Mark | None = None
        self.fails: dict[str, Exception] = {}
        self.is_expired = False

    def begin(self) -> Mark | None:
        self._fail("begin")
        self.producer += 1
        return self.committed

    def mark(self, mark: Mark, ends: Mapping[tuple[str, int], int]) -> None:
        self._fail("mark")
        self.marked = mark

    def end(self, *, commit: bool) -> None:
        if commit:
            self.committed = self.marked
        self._fail("commit" if commit else "abort")

    def has_expired(self) -> bool:
        return self.is_expired

    def close(self) -> None:
        pass

    def _fail(self, call: str) -> None:
        if call in self.fails:
            raise self.fails.pop(call)


def nothing(producer: int) -> list[Written]:
    return []


def failing(error: Exception) -> Tasks[int]:
    def tasks(producer: int) -> list[Written]:
        raise error

    return tasks


@pytest.fixture
def transaction() -> Coordinated:
    return Coordinated()


@pytest.fixture
def stream(transaction: Coordinated) -> ExactlyOnce[int]:
    stream = ExactlyOnce(transaction, "run")
    assert not stream.is_settled
    stream.start()
    assert stream.is_settled
    return stream


def test_aborted_batch_does_not_change_the_progress_of_the_stream(stream: ExactlyOnce[int]) -> None:
    with pytest.raises(ZeroDivisionError):
        stream.write("q", 0, failing(ZeroDivisionError()), ENDS)
    assert stream.is_settled
    assert not stream.write("q", 0, nothing, ENDS).is_replay
    assert stream.is_settled


@pytest.mark.parametrize(
    ("tasks", "fails", "raised"),
    [
        (failing(ZeroDivisionError()), {"abort": PipelineError("aborting: no broker answers")}, PipelineError),
        (failing(ZeroDivisionError()), {"abort": Fenced("shop")}, Fenced),
        (failing(Fenced("shop")), {}, Fenced),
        (nothing, {"mark": RuntimeError(), "abort": RuntimeError()}, RuntimeError),
        (nothing, {"mark": Fenced("shop")}, Fenced),
        (nothing, {"commit": PipelineError("committing: no broker answers")}, PipelineError),
        (nothing, {"commit": KeyboardInterrupt()}, KeyboardInterrupt),
    ],
)
def test_unknown_outcome_of_a_batch_initializes_the_transactional_id_again(
    transaction: Coordinated,
    stream: ExactlyOnce[int],
    tasks: Tasks[int],
    fails: dict[str, Exception],
    raised: type[BaseException],
) -> None:
    """With the same producer id and epoch, new records would be dropped as duplicates of the failed batch's records."""
    transaction.fails = dict(fails)
    with pytest.raises(raised):
        stream.write("q", 0, tasks, ENDS)
    assert not stream.is_settled
    with pytest.raises(RuntimeError, match="start"):
        stream.write("q", 0, nothing, ENDS)
    stream.start()
    assert transaction.producer == 2
    # If only the response to the commit was lost, the progress record shows that the batch is committed.
    assert stream.write("q", 0, nothing, ENDS).is_replay == ("commit" in fails)


def test_failed_init_producer_id_of_a_stream_is_retried_with_the_next_batch(
    transaction: Coordinated, stream: ExactlyOnce[int]
) -> None:
    transaction.fails = {"begin": PipelineError("no broker answers")}
    with pytest.raises(PipelineError):
        stream.start()
    assert not stream.is_settled


def test_spark_batch_beyond_the_transaction_timeout_is_not_reported_as_fenced(transaction: Coordinated) -> None:
    times = iter([0.0, 1.5, 2.0, 2.4])
    stream = ExactlyOnce(transaction, "run", timeout_ms=1_000, now_s=lambda: next(times))
    stream.start()
    with pytest.raises(PipelineError, match=r"batch 0 took 1,500 ms, longer than its transaction.timeout.ms of 1,000 ms"):
        stream.write("q", 0, failing(Fenced("shop")), ENDS)
    stream.start()
    with pytest.raises(Fenced):
        stream.write("q", 0, failing(Fenced("shop")), ENDS)


def test_reported_duration_of_a_batch_counts_from_its_begin_time(transaction: Coordinated) -> None:
    stream = ExactlyOnce(transaction, "run", timeout_ms=1_000, now_s=lambda: 101.5)
    stream.start()
    transaction.fails = {"mark": Fenced("shop")}
    with pytest.raises(PipelineError, match="batch 0 took 1,500 ms"):
        stream.write("q", 0, nothing, ENDS, began_s=100.0)
