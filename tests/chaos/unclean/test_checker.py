"""The checker of unclean elections finds planted losses, and permits losses that an election explains."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.result import LogRecord
from ottla.protocol.messages import partition_change_record, topic_record
from ottla.protocol.messages.fetch import PartitionData
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord
from ottla.protocol.records import assign, build_batch
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.checker import Observation, Stored
from ottla.simulation.history import Attempt, History, ProducerSession, TriedRecord
from tests.chaos.unclean.checker import Losses, batches_stay, check, epochs_never_return, fates
from tests.chaos.unclean.elections import CLEAN, ELIGIBLE, LAST_KNOWN, UNCLEAN, Election, elections
from tests.chaos.unclean.power import SyncedLengths, cut_power
from tests.chaos.unclean.witness import Identity, Sightings

A, B, OFFSETS = ("a", 0), ("b", 0), ("__consumer_offsets", 0)


def log_of(*epochs: int) -> dict[int, Identity]:
    """Return a log with one single-record batch for each leader epoch. Each batch has a different CRC."""
    return {at: Identity(at + 1, epoch, 100 * epoch + at) for at, epoch in enumerate(epochs)}


def sightings_of(logs: dict[TopicPartition, dict[int, Identity]]) -> Sightings:
    sightings = Sightings()
    for where, log in logs.items():
        for at, identity in log.items():
            sightings.batches[where][at].add(identity)
    return sightings


def judged(seen: dict[int, Identity], left: dict[int, Identity], *found: Election) -> list[str]:
    return list(batches_stay(sightings_of({A: seen}), {A: left}, Losses({A: left}, found)))


def test_loss_checker_reports_nothing_for_an_unchanged_log() -> None:
    assert judged(log_of(0, 0, 1), log_of(0, 0, 1)) == []


def test_loss_checker_reports_a_missing_batch() -> None:
    (line,) = judged(log_of(0, 0, 0), log_of(0, 0))
    assert line.startswith("committed batch gone: ('a', 0) at 2") and line.endswith("is missing")


@pytest.mark.parametrize("other", [Identity(2, 0, 7), Identity(2, 1, 1), Identity(3, 0, 1)])
def test_loss_checker_reports_a_changed_batch(other: Identity) -> None:
    (line,) = judged(log_of(0, 0), log_of(0) | {1: other})
    assert "at 1" in line and f"is {other}" in line


def test_loss_checker_reports_a_loss_at_a_clean_leader_election() -> None:
    assert len(judged(log_of(0, 0, 0), log_of(0, 0, 2), Election(A, 2, 1, CLEAN))) == 1


def test_loss_checker_accepts_lost_batches_only_after_the_first_offset_of_an_unclean_election() -> None:
    assert judged(log_of(0, 0, 0), log_of(0, 0, 2), Election(A, 2, 1, UNCLEAN)) == []


def test_loss_checker_accepts_lost_batches_at_the_log_end_after_an_unclean_election() -> None:
    assert judged(log_of(0, 0, 0), log_of(0, 0), Election(A, 2, 1, UNCLEAN)) == []


def test_loss_checker_reports_a_loss_before_the_first_batch_of_an_unclean_election() -> None:
    left = {0: Identity(1, 0, 0), 2: Identity(3, 2, 202)}
    (line,) = judged(log_of(0, 0), left, Election(A, 2, 1, UNCLEAN))
    assert "at 1" in line


def test_loss_checker_reports_a_lost_batch_of_the_unclean_elections_own_epoch() -> None:
    (line,) = judged(log_of(0, 2, 2), log_of(0, 2), Election(A, 2, 1, UNCLEAN))
    assert "at 2" in line


def test_loss_checker_accepts_lost_batches_of_an_isolated_leader_after_another_unclean_election() -> None:
    first, second = Election(A, 2, 1, UNCLEAN), Election(A, 4, 3, UNCLEAN)
    assert judged(log_of(0, 2, 2), log_of(0, 0, 0, 4), first, second) == []
    assert len(judged(log_of(0, 2, 2), log_of(0, 0, 0, 4), first)) == 2


def test_loss_checker_reports_a_changed_batch_of_one_epoch_despite_an_unclean_election() -> None:
    assert len(judged(log_of(0, 2), {0: Identity(1, 0, 0), 1: Identity(2, 2, 7)}, Election(A, 4, 3, UNCLEAN))) == 1


def test_loss_checker_reports_a_loss_despite_an_unclean_election_of_another_partition() -> None:
    assert len(judged(log_of(0, 0), log_of(0), Election(B, 2, 1, UNCLEAN))) == 1


def test_loss_checker_reports_a_lost_batch_when_another_batch_was_seen_at_its_offset() -> None:
    sightings = sightings_of({A: log_of(0, 0)})
    sightings.batches[A][1].add(Identity(2, 1, 101))
    left = {A: log_of(0, 0)}
    (line,) = batches_stay(sightings, left, Losses(left, []))
    assert "leader_epoch=1" in line
    assert fates(sightings, left) == {"kept": 2, "lost": 1}


def test_loss_checker_reports_a_decreasing_leader_epoch() -> None:
    (line,) = epochs_never_return({A: log_of(0, 3, 2)})
    assert line == "leader epoch decreased: ('a', 0) at 2 has epoch 2 after 3"


def test_loss_checker_reports_a_response_with_a_batch_above_the_high_watermark() -> None:
    sightings = Sightings()
    batch = build_batch([(None, b"x")], 0)
    assign(batch, 4, 1)
    data = PartitionData(partition_index=0, high_watermark=4, records=bytes(batch))
    assert sightings.take(A, data, 4) == 5
    (line,) = sightings.findings
    assert "above its high watermark 4" in line


def history_of(*values: tuple[TopicPartition, str]) -> History:
    """Return a history with one committed transaction that has these records."""
    attempt = Attempt("id", "id#1", 1, 1, [TriedRecord(where, value) for where, value in values], commit_asked_s=2.0)
    attempt.was_answered_committed, attempt.ended_s = True, 3.0
    return History(attempts=[attempt], sessions=[ProducerSession("id", "id#1", 1, 1.0)])


def observation_of(*values: tuple[TopicPartition, str]) -> Observation:
    shown = {where: [(0, value) for w, value in values if w == where] for where in (A, B)}
    stored = {
        where: [Stored(0, 1, 5, True, None, [records[0][1]]), Stored(1, 2, 5, True, True)] if records else []
        for where, records in shown.items()
    }
    ends = {where: (2 * len(records), 2 * len(records)) for where, records in shown.items()}
    return Observation(committed=shown, uncommitted=shown, stored=stored, ends=ends, offsets={})


def findings(history: History, seen: Observation, sightings: Sightings, *found: Election) -> list[str]:
    logs = {where: log_of(*(0 for _ in batches)) if batches else {} for where, batches in seen.stored.items()}
    return check(history, seen, sightings, logs, found, lambda group: OFFSETS)


BOTH = ((A, "id#1/1/1/0"), (B, "id#1/1/1/1"))


def test_loss_checker_reports_nothing_for_a_whole_transaction() -> None:
    assert findings(history_of(*BOTH), observation_of(*BOTH), Sightings()) == []


def test_loss_checker_reports_half_of_a_transaction() -> None:
    lines = findings(history_of(*BOTH), observation_of(BOTH[0]), Sightings())
    assert [line.partition(":")[0] for line in lines] == ["lost", "incomplete"]


def test_loss_checker_accepts_half_of_a_transaction_lost_in_a_partition_with_unclean_election() -> None:
    lost, other = Election(B, 2, 1, UNCLEAN), Election(A, 2, 1, UNCLEAN)
    assert findings(history_of(*BOTH), observation_of(BOTH[0]), Sightings(), lost) == []
    lines = findings(history_of(*BOTH), observation_of(BOTH[0]), Sightings(), other)
    assert all(line.startswith("lost: id#1/1/1/1") for line in lines) and lines


def test_loss_checker_reports_a_lost_record_unless_an_unclean_election_followed_its_read() -> None:
    sightings = Sightings()
    sightings.values[BOTH[1][1]] = (B, 0, Identity(1, 3, 5))
    (line,) = findings(history_of(*BOTH), observation_of(BOTH[0]), sightings, Election(B, 2, 1, UNCLEAN))
    assert line.startswith("lost: id#1/1/1/1")


def test_loss_checker_reports_a_record_that_was_never_produced_despite_an_unclean_election() -> None:
    lines = findings(History(), observation_of(BOTH[0]), Sightings(), Election(A, 2, 1, UNCLEAN))
    assert any(line.startswith("unknown record: 'id#1/1/1/0'") for line in lines)


def test_loss_checker_reads_elections_from_the_metadata_log() -> None:
    topic_id = bytes(15) + b"\7"
    first = PartitionRegistration(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=0, partition_epoch=0)

    def change(leader: int, isr: list[int], **fields: Any) -> LogRecord:
        message = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader, isr=isr, **fields)
        return metadata_record(partition_change_record, message)

    records = [
        metadata_record(topic_record, topic_record.TopicRecord(name="a", topic_id=topic_id)),
        first.to_record(topic_id, 0),
        change(2, [2, 3]),
        change(2, [2], eligible_leader_replicas=[3]),
        change(3, [3], eligible_leader_replicas=[]),
        change(-1, [], last_known_elr=[3]),
        change(3, [3], last_known_elr=[]),
        change(1, [1]),
    ]
    found = [(e.where, e.leader_epoch, e.leader, e.kind) for e in elections(records)]
    assert found == [(A, 1, 2, CLEAN), (A, 3, 3, ELIGIBLE), (A, 5, 3, LAST_KNOWN), (A, 6, 1, UNCLEAN)]


def test_simulated_power_cut_removes_only_unsynced_bytes(tmp_path: Path) -> None:
    log_dir, synced = tmp_path / "broker-1", tmp_path / "synced"
    partition = log_dir / "a-0"
    partition.mkdir(parents=True)
    synced.mkdir()
    lengths = SyncedLengths(synced)
    whole, half, later = (partition / f"{base:020d}.log" for base in (0, 10, 20))
    for segment in (whole, half, later):
        segment.write_bytes(bytes(100))
        segment.with_suffix(".index").write_bytes(b"")
    lengths.note(str(whole), 100)
    lengths.note(str(half), 40)
    lost = cut_power(log_dir, lengths, random.Random(1))
    assert whole.stat().st_size == 100
    assert 40 <= half.stat().st_size < 100
    assert sorted(partition.glob("*.index")) == [whole.with_suffix(".index"), half.with_suffix(".index")]
    assert lost == 200 - half.stat().st_size


def test_synced_length_of_a_removed_file_does_not_apply_to_a_new_file_at_its_path(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.write_bytes(bytes(10))
    lengths = SyncedLengths(tmp_path)
    lengths.note(str(file), 10)
    assert lengths.of(file) == 10
    (tmp_path / "other").write_bytes(bytes(10))
    (tmp_path / "other").rename(file)
    assert lengths.of(file) == 0
