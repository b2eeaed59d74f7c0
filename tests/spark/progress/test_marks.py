"""Unit tests, without a broker, of how the last progress record decides whether the next batch is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pytest

from ottla.spark.checkpoint.checkpoint import InputEnds, parse_begin, parse_input
from ottla.spark.checkpoint.query import check_number
from ottla.spark.errors import Fenced, PipelineError
from ottla.spark.progress.marks import Mark, commit_of, newest_mark, parse_mark
from ottla.spark.sink.exactly_once import ExactlyOnce
from ottla.spark.sink.task_writer import Written

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"t":{"0":7}}'
ENDS = parse_input(OFFSETS, 4)


@dataclass
class FakeTransaction:
    """Records committed progress in ``committed``, newest last, and in ``ends`` whether each transaction was committed."""

    committed: list[Mark] = field(default_factory=list)
    ends: list[bool] = field(default_factory=list)
    producer: int = 0
    transactional_id: str = "shop"
    expired: bool = False
    _open: Mark | None = None

    def begin(self) -> Mark | None:
        return self.committed[-1] if self.committed else None

    def mark(self, mark: Mark, offsets: Mapping[tuple[str, int], int]) -> None:
        self._open = mark

    def has_expired(self) -> bool:
        return self.expired

    def end(self, *, commit: bool) -> None:
        self.ends.append(commit)
        if commit and self._open is not None:
            self.committed.append(self._open)
        self._open = None


def written(_: int) -> list[Written]:
    return [Written("t", 0, 1, 10)]


def ends(batch: int) -> InputEnds:
    return InputEnds("", {("t", 0): batch})


def stream(transaction: FakeTransaction) -> ExactlyOnce[int]:
    made = ExactlyOnce(transaction, "run")
    made.start()
    return made


def test_stream_continues_with_the_next_batch_after_restarts() -> None:
    transaction = FakeTransaction()
    for batch in range(3):
        assert not stream(transaction).write("q", batch, written, ends(batch)).is_replay
    assert [mark.batch for mark in transaction.committed] == [0, 1, 2]


def test_committed_spark_batch_is_not_written_again() -> None:
    transaction = FakeTransaction([Mark("q", 4, "before", ENDS.text)])
    assert stream(transaction).write("q", 4, written, ENDS).is_replay
    assert transaction.ends == []


def test_spark_batch_committed_by_an_older_ottla_version_is_recognized() -> None:
    assert stream(FakeTransaction([Mark("q", 4, "before")])).write("q", 4, written, ENDS).is_replay
    assert parse_mark('{"query":"q","batch":4,"run":"r"}', "g") == Mark("q", 4, "r")


def test_committed_spark_batch_that_is_planned_again_with_more_input_is_refused() -> None:
    """Spark planned the batch again with more input. If it were skipped, the additional input would be lost."""
    transaction = FakeTransaction([Mark("q", 4, "before", ENDS.text)])
    more = parse_input(OFFSETS.replace("7", "12"), 4)
    with pytest.raises(PipelineError, match=r'up to \{"t":\{"0":7\}\}, but the checkpoint has it up to \{"t":\{"0":12\}\}'):
        stream(transaction).write("q", 4, written, more)
    assert transaction.ends == []


def test_committed_spark_batch_that_is_planned_again_with_other_files_is_refused() -> None:
    """After a checkpoint was reset, the same batch number may refer to other files."""
    files = InputEnds('{"logOffset":1}', {("t", 0): 4}, content="one", at="t")
    last = Mark("q", 4, "before", files.text, content="one")
    assert stream(FakeTransaction([last])).write("q", 4, written, files).is_replay
    other = msgspec.structs.replace(files, content="another")
    with pytest.raises(PipelineError, match="batch 4 was committed, but the checkpoint has other files for it"):
        stream(FakeTransaction([last])).write("q", 4, written, other)
    # Progress records of older versions have no digest of files, so files cannot be compared.
    assert stream(FakeTransaction([Mark("q", 4, "before", files.text)])).write("q", 4, written, other).is_replay


@pytest.mark.parametrize(("given", "running", "is_refused"), [(3, "3", False), (0, "3", True), (0, None, False)])
def test_progress_record_of_another_stream_is_refused(given: int, running: str | None, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(PipelineError, match="was given batch 0, and the stream runs batch 3"):
            check_number(given, running)
    else:
        check_number(given, running)


def test_checkpoint_set_back_several_batches_is_refused() -> None:
    with pytest.raises(PipelineError, match="is at batch 3, but batch 4 is committed: an older checkpoint was restored"):
        stream(FakeTransaction([Mark("q", 4, "before")])).write("q", 3, written, ends(3))


def test_input_offsets_of_a_batch_are_parsed_from_the_checkpoint() -> None:
    assert (ENDS.text, ENDS.offsets) == ('{"t":{"0":7}}', {("t", 0): 7})
    two = OFFSETS + '\n{"b":{"1":2,"0":1}}\n-'
    assert parse_input(two, 4).text == '[{"t":{"0":7}},{"b":{"0":1,"1":2}}]'
    assert parse_input(two, 4).offsets == {("t", 0): 7, ("b", 0): 1, ("b", 1): 2}
    assert parse_input('v1\n{}\n{"logOffset":3}\n5', 4).offsets == {}
    many = "v1\n{}\n" + json.dumps({"t": {str(n): n for n in range(1_000)}})
    assert parse_input(many, 4).text.startswith("sha256:")
    assert len(parse_input(many, 4).text) < 100
    assert len(parse_input(many, 4).offsets) == 1_000
    with pytest.raises(PipelineError, match="offsets of batch 4 cannot be read"):
        parse_input(OFFSETS[:-1], 4)


@pytest.mark.parametrize("batch", [1, 7])
def test_spark_batch_after_the_first_is_refused_without_a_progress_record(batch: int) -> None:
    """The group was deleted or has expired, or the transactional id has changed."""
    transaction = FakeTransaction()
    with pytest.raises(PipelineError, match=f"is at batch {batch}, and it is unknown which batches were committed"):
        stream(transaction).write("q", batch, written, ends(batch))
    assert transaction.ends == []


def test_progress_record_older_than_the_checkpoint_is_refused() -> None:
    transaction = FakeTransaction([Mark("q", 4, "before")])
    with pytest.raises(PipelineError, match="is at batch 6, but the last batch committed under this transactional id is 4"):
        stream(transaction).write("q", 6, written, ends(6))
    assert transaction.ends == []


def test_progress_record_of_another_checkpoint_is_refused() -> None:
    with pytest.raises(PipelineError, match="came from another checkpoint"):
        stream(FakeTransaction([Mark("another", 4, "before")])).write("q", 5, written, ends(5))


def test_aborted_spark_batch_is_retried_with_the_same_number() -> None:
    transaction = FakeTransaction([Mark("q", 4, "before")])
    sink = stream(transaction)

    def fails(_: int) -> list[Written]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sink.write("q", 5, fails, ends(5))
    assert not sink.write("q", 5, written, ends(5)).is_replay
    assert transaction.ends == [False, True]


def test_progress_record_is_stored_at_the_first_input_partition() -> None:
    mark = Mark("q", 4, "r", ENDS.text)
    commit = commit_of(mark, {("t", 1): 9, ("t", 0): 7, ("u", 0): 3})
    assert list(commit) == ["t", "u"]
    assert (commit["t"][1], commit["u"]) == ((9, ""), {0: (3, "")})
    offset, metadata = commit["t"][0]
    assert (offset, newest_mark(["", metadata, ""], "g")) == (7, mark)


def test_newest_progress_record_is_used() -> None:
    """A topic that is no longer read keeps the progress record of the last batch that read it."""
    old, new = (commit_of(Mark("q", batch, "r"), {(topic, 0): 1})[topic][0][1] for batch, topic in ((4, "t"), (5, "a")))
    assert newest_mark([old, new], "g") == newest_mark([new, old], "g") == Mark("q", 5, "r")
    assert newest_mark([], "g") is None
    for foreign in (["theirs"], ["", ""], [old, "theirs"]):
        with pytest.raises(PipelineError, match="'g' has offsets that no pipeline has committed"):
            newest_mark(foreign, "g")


@pytest.mark.parametrize(
    ("begin", "goes_on"),
    [
        ('{"t":{"0":7}}', True),
        ('{"t":{"0":7,"1":0}}', True),
        ('{"t":{"0":6}}', False),
        ('{"t":{"1":7}}', False),
        ('{"u":{"0":7}}', False),
        ('[{"t":{"0":7}}]', False),
        ("", False),
    ],
)
def test_lost_checkpoint_resumes_only_at_the_committed_offsets(begin: str, goes_on: bool) -> None:
    transaction = FakeTransaction([Mark("lost", 4, "before", ENDS.text)])
    sink = stream(transaction)
    first = InputEnds('{"t":{"0":9}}', {("t", 0): 9}, begin)
    if not goes_on:
        with pytest.raises(PipelineError, match=r"came from another checkpoint .* start at ottla\.spark\.committed_offsets"):
            sink.write("q", 0, written, first)
        assert transaction.ends == []
        return
    assert not sink.write("q", 0, written, first).is_replay
    assert sink.write("q", 0, written, first).is_replay
    assert not sink.write("q", 1, written, ends(1)).is_replay
    assert [mark.turn for mark in transaction.committed] == [0, 1, 1]
    assert newest_mark([msgspec.json.encode(mark).decode() for mark in transaction.committed], "g") == transaction.committed[-1]
    with pytest.raises(PipelineError, match="came from another checkpoint"):
        stream(transaction).write("lost", 5, written, ends(5))


def test_begin_offsets_of_a_batch_are_parsed_from_the_checkpoint() -> None:
    assert parse_begin(['\0v1\n{"t":{"1":2,"0":7}}']) == '{"t":{"0":7,"1":2}}'
    assert parse_begin(['\0v1\n{"t":{"0":7}}', 'v1\n{"u":{"0":1}}']) == '[{"t":{"0":7}},{"u":{"0":1}}]'
    for nothing in ([], ["v1"], ["{"], ['v1\n{"path":"file:/a","batchId":0}']):
        assert parse_begin(nothing) == ""


@pytest.mark.parametrize(
    ("took_s", "says"), [(59.0, "another pipeline uses"), (61.0, "batch 0 took 61,000 ms, longer than its transaction")]
)
def test_spark_batch_beyond_the_transaction_timeout_is_reported_as_too_slow(took_s: float, says: str) -> None:
    clock = [0.0]
    sink = ExactlyOnce(FakeTransaction(), "run", timeout_ms=60_000, now_s=lambda: clock[0])
    sink.start()

    def fenced(_: int) -> list[Written]:
        clock[0] += took_s
        raise Fenced("shop")

    with pytest.raises(PipelineError, match=says):
        sink.write("q", 0, fenced, ends(0))
