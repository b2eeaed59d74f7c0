"""How an observer appends, commits and truncates batches of the metadata log."""

from __future__ import annotations

import pytest

from ottla.broker.membership import metadata_replica
from ottla.broker.membership.metadata_replica import MetadataLost, MetadataReplica, ReplicaRefused
from ottla.protocol.records import assign, build_batch


def batch(base_offset: int, *values: bytes, epoch: int = 1) -> bytes:
    made = build_batch(((None, value) for value in values), 1_000)
    assign(made, base_offset, epoch)
    return bytes(made)


class Observer:
    def __init__(self) -> None:
        self.records: list[tuple[int, bytes | None]] = []
        self.times_applied = 0
        self.replica = MetadataReplica(lambda record, offset: self.records.append((offset, record.value)), self._applied)

    def _applied(self) -> None:
        self.times_applied += 1


@pytest.fixture
def observer() -> Observer:
    return Observer()


def test_metadata_records_are_applied_when_they_are_committed(observer: Observer) -> None:
    replica = observer.replica
    assert (replica.end_offset, replica.last_epoch, replica.applied_offset) == (0, 0, -1)
    replica.append(batch(0, b"a", b"b") + batch(2, b"c", epoch=3))
    assert (replica.end_offset, replica.last_epoch, observer.records) == (3, 3, [])
    replica.commit(2)
    assert observer.records == [(0, b"a"), (1, b"b")]
    assert replica.applied_offset == 1
    replica.commit(2)
    replica.commit(3)
    assert observer.records == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert observer.times_applied == 2


def test_metadata_batch_is_applied_as_a_whole(observer: Observer) -> None:
    observer.replica.append(batch(0, b"a", b"b"))
    observer.replica.commit(1)
    assert observer.records == []


def test_incomplete_metadata_batch_is_fetched_again(observer: Observer) -> None:
    whole, cut = batch(0, b"a"), batch(1, b"b")[:-1]
    observer.replica.append(whole + cut)
    assert observer.replica.end_offset == 1


def damaged() -> bytes:
    raw = bytearray(batch(0, b"a"))
    raw[-1] ^= 1
    return bytes(raw)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (batch(1, b"a"), "offset 1, after the log end 0"),
        (batch(0, b"a", epoch=5) + batch(1, b"b", epoch=4), "leader epoch 4 after one of leader epoch 5"),
        (damaged(), "is damaged"),
        (batch(0, b"a")[:-1], "no complete batch"),
        (b"\0" * 100, "no complete batch"),
    ],
)
def test_records_that_do_not_continue_the_metadata_log_are_refused(observer: Observer, records: bytes, reason: str) -> None:
    with pytest.raises(ReplicaRefused, match=reason):
        observer.replica.append(records)
    assert (observer.replica.end_offset, observer.replica.last_epoch) == (0, 0)
    observer.replica.append(batch(0, b"a"))
    observer.replica.commit(1)
    assert observer.records == [(0, b"a")]


def test_uncommitted_metadata_in_memory_is_bounded(observer: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_replica, "MAX_WAITING_BYTES", 150)
    observer.replica.append(batch(0, b"a"))
    with pytest.raises(ReplicaRefused, match="not committed"):
        observer.replica.append(batch(1, b"b" * 100))
    observer.replica.commit(1)
    observer.replica.append(batch(1, b"b"))


def test_diverging_metadata_log_is_truncated_to_a_batch_boundary(observer: Observer) -> None:
    replica = observer.replica
    replica.append(batch(0, b"a", epoch=1) + batch(1, b"b", b"c", epoch=2) + batch(3, b"d", epoch=3))
    replica.commit(1)
    replica.truncate(2)
    assert (replica.end_offset, replica.last_epoch) == (1, 1)
    replica.append(batch(1, b"x", epoch=4))
    replica.commit(2)
    assert observer.records == [(0, b"a"), (1, b"x")]


def test_committed_metadata_records_are_never_truncated(observer: Observer) -> None:
    observer.replica.append(batch(0, b"a") + batch(1, b"b"))
    observer.replica.commit(2)
    with pytest.raises(MetadataLost, match="below 2 were committed"):
        observer.replica.truncate(1)
    assert observer.replica.end_offset == 2


def test_metadata_batches_of_an_epoch_unknown_to_the_controller_are_truncated(observer: Observer) -> None:
    """The controller's log may have a larger end offset in an earlier epoch, so comparing offsets alone would truncate nothing."""
    observer.replica.append(batch(0, b"a", epoch=1) + batch(1, b"b", epoch=2))
    observer.replica.commit(1)
    observer.replica.truncate(60, 1)
    assert (observer.replica.end_offset, observer.replica.last_epoch) == (1, 1)
    observer.replica.append(batch(1, b"x", epoch=1))
    observer.replica.commit(2)
    with pytest.raises(MetadataLost, match="epoch 1 was committed"):
        observer.replica.truncate(60, 0)
