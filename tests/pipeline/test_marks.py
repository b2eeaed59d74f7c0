"""What the mark of the last batch says of the next one, without a broker."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ottla.pipeline.errors import PipelineError
from ottla.pipeline.exactly_once import ExactlyOnce
from ottla.pipeline.transaction import Mark
from ottla.pipeline.writer import Written


@dataclass
class FakeTransaction:
    """What was committed is ``committed``, the newest last; ``ends`` tells how each transaction has ended."""

    committed: list[Mark] = field(default_factory=list)
    ends: list[bool] = field(default_factory=list)
    producer: int = 0
    _open: Mark | None = None

    def begin(self) -> Mark | None:
        return self.committed[-1] if self.committed else None

    def mark(self, mark: Mark) -> None:
        self._open = mark

    def end(self, *, commit: bool) -> None:
        self.ends.append(commit)
        if commit and self._open is not None:
            self.committed.append(self._open)
        self._open = None


def written(_: int) -> list[Written]:
    return [Written("t", 0, 1, 10)]


def stream(transaction: FakeTransaction) -> ExactlyOnce[int]:
    made = ExactlyOnce(transaction, "run")
    made.start()
    return made


def test_batches_follow_each_other_over_starts() -> None:
    transaction = FakeTransaction()
    for batch in range(3):
        assert not stream(transaction).write("q", batch, written).is_replay
    assert [mark.batch for mark in transaction.committed] == [0, 1, 2]


def test_what_was_committed_is_not_written_again() -> None:
    transaction = FakeTransaction([Mark("q", 4, "before")])
    sink = stream(transaction)
    assert sink.write("q", 3, written).is_replay
    assert sink.write("q", 4, written).is_replay
    assert transaction.ends == []


@pytest.mark.parametrize("batch", [1, 7])
def test_a_later_batch_without_a_mark_is_no_first_start(batch: int) -> None:
    """The group was deleted or has expired, or somebody gave another transactional id."""
    transaction = FakeTransaction()
    with pytest.raises(PipelineError, match=f"is at batch {batch}, and nothing tells which batches were committed"):
        stream(transaction).write("q", batch, written)
    assert transaction.ends == []


def test_a_mark_that_was_set_back() -> None:
    transaction = FakeTransaction([Mark("q", 4, "before")])
    with pytest.raises(PipelineError, match="is at batch 6, and the last that was committed under this transactional id is 4"):
        stream(transaction).write("q", 6, written)
    assert transaction.ends == []


def test_a_mark_of_another_checkpoint() -> None:
    with pytest.raises(PipelineError, match="came from another checkpoint"):
        stream(FakeTransaction([Mark("another", 4, "before")])).write("q", 5, written)


def test_a_batch_that_was_aborted_is_tried_again_under_its_number() -> None:
    transaction = FakeTransaction([Mark("q", 4, "before")])
    sink = stream(transaction)

    def fails(_: int) -> list[Written]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sink.write("q", 5, fails)
    assert not sink.write("q", 5, written).is_replay
    assert transaction.ends == [False, True]
