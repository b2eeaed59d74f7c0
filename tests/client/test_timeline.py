"""The history of a transactional id, out of the records of the coordinator's log and of its partitions."""

from __future__ import annotations

import pytest

from ottla.cli.txn_timeline import diagram
from ottla.client.records import Record
from ottla.client.timeline import Event, Logged, events, logged
from ottla.coordinator.transaction.metadata import TxnMetadata, key_record, to_record
from ottla.protocol.transaction_states import TxnState

WHERE = "__transaction_state:7"


def state(offset: int, name: str | None, *partitions: int, epoch: int = 0) -> Logged:
    return Logged(
        offset=offset,
        time_ms=1_000 + 10 * offset,
        state=name,
        producer_id=5,
        producer_epoch=epoch,
        timeout_ms=60_000,
        start_ms=1_010,
        partitions=frozenset(("orders", partition) for partition in partitions),
    )


def record(offset: int, time_ms: int, control: str | None = None, producer_id: int = 5) -> Record:
    return Record(
        topic="orders",
        partition=0,
        offset=offset,
        timestamp_ms=time_ms,
        key=None,
        value=b"v",
        headers=[],
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=control,
    )


def kinds(happened: list[Event]) -> list[str]:
    return [event.kind for event in happened]


def test_a_transaction_from_its_begin_to_its_end() -> None:
    states = [
        state(0, "Empty"),
        state(1, "Ongoing", 0),
        state(2, "Ongoing", 0, 1),
        state(3, "PrepareCommit", 0, 1),
        state(5, "CompleteCommit"),
    ]
    data = [record(0, 1_011), record(1, 1_012), record(2, 1_040, "COMMIT")]
    happened = events(states, WHERE, data)
    assert kinds(happened) == ["init", "begin", "data", "add", "decide", "marker", "complete"]
    assert [event.partitions for event in happened if event.kind in ("begin", "add")] == [[("orders", 0)], [("orders", 1)]]
    assert happened[2].what == "2 records written"
    assert happened[2].where == "orders:0 at 0 to 1"
    assert happened[-1].what == "committed, every marker is written, 40 ms after its begin"
    assert happened[-1].where == f"{WHERE} at 5"


def test_another_producer_takes_the_id_over() -> None:
    first, second = events([state(0, "Empty"), state(1, "Empty", epoch=1)], WHERE)
    assert first.what == "a producer takes the id (time-out 60,000 ms)"
    assert second.what == "a producer takes the id over; those before it are fenced (time-out 60,000 ms)"


def test_what_compaction_has_left() -> None:
    """Only the newest record: it is told as far as it goes."""
    assert kinds(events([state(9, "CompleteAbort")], WHERE)) == ["complete"]
    assert kinds(events([state(9, "Ongoing", 0)], WHERE)) == ["begin"]


def test_an_id_that_expires() -> None:
    assert kinds(events([state(0, "CompleteCommit"), state(1, None), state(2, "Empty")], WHERE)) == ["complete", "expire", "init"]


def test_records_are_told_by_transaction() -> None:
    data = [record(0, 1_011), record(1, 1_020, "ABORT"), record(2, 1_030), record(3, 1_040)]
    happened = [event for event in events([], WHERE, data) if event.kind == "data"]
    assert [event.where for event in happened] == ["orders:0 at 0", "orders:0 at 2 to 3"]


def test_records_that_are_older_than_their_transaction_come_after_its_begin() -> None:
    states = [state(1, "Ongoing", 0), state(3, "PrepareCommit", 0), state(5, "CompleteCommit")]
    happened = events(states, WHERE, [record(0, 990), record(1, 1_040, "COMMIT")])
    assert kinds(happened) == ["begin", "data", "decide", "marker", "complete"]


@pytest.mark.parametrize("flexible", [True, False])
def test_records_of_the_log(flexible: bool) -> None:
    metadata = TxnMetadata(
        transactional_id="shop",
        producer_id=5,
        producer_epoch=3,
        timeout_ms=60_000,
        state=TxnState.PREPARE_COMMIT,
        partitions=frozenset({("orders", 1)}),
        start_ms=77,
    )
    written = to_record(metadata, flexible=flexible)
    read = logged("shop", written.key, written.value, 4, 99)
    assert read is not None
    assert (read.offset, read.time_ms, read.state, read.producer_id, read.producer_epoch) == (4, 99, "PrepareCommit", 5, 3)
    assert (read.start_ms, read.partitions) == (77, {("orders", 1)})
    assert logged("another", written.key, written.value, 4, 99) is None
    tombstone = logged("shop", key_record("shop"), None, 5, 99)
    assert tombstone is not None
    assert tombstone.state is None


@pytest.mark.parametrize(("key", "value"), [(None, b"x"), (b"", b"x"), (b"\xff\xff", b"x"), (key_record("shop"), b"\x7f\xff")])
def test_what_is_no_record_of_a_transaction(key: bytes | None, value: bytes) -> None:
    assert logged("shop", key, value, 0, 0) is None


def test_a_diagram_of_names_that_mermaid_would_take_for_its_own() -> None:
    happened = events([state(0, "Empty"), state(1, "Ongoing", 0)], WHERE, [record(0, 1_011)])
    lines = diagram("shop;#1\n", happened).splitlines()
    assert lines[:4] == [
        "sequenceDiagram",
        "    participant C as shop,1 ",
        "    participant T as coordinator",
        "    participant P0 as orders:0",
    ]
    assert lines[-1] == "    C->>P0: 1 record written (5 epoch 0)"
