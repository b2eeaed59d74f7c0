"""The hash that selects the coordinator of an id, and batches of work between which other commands change the state."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.result import LogRecord, Result, decided_in_batches
from ottla.coordinator.share_state.records import ShareKey
from ottla.coordinator.share_state.requests import ShareStateConfig, StateWrite
from ottla.coordinator.share_state.shard import ShareShard
from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.coordinator.transaction.requests import TxnConfig
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.protocol.java_hash import java_hash
from ottla.protocol.transaction_states import TxnState
from tests.coordinator.classic_world import ClassicGroupWorld


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 511, 512, 1_000])
def test_string_hash_equals_that_of_javas_string_hash_code(length: int) -> None:
    """The hash is String.hashCode: s[0] * 31^(n-1) + ... + s[n-1], as a signed 32-bit integer."""
    text = "".join(chr(0x21 + 7 * at) for at in range(length))
    raw = text.encode("utf-16-be")
    units = [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
    value = sum(unit * 31 ** (len(units) - 1 - at) for at, unit in enumerate(units)) % (1 << 32)
    assert java_hash(text) == (value - (1 << 32) if value >= 1 << 31 else value)


def numbered(name: str, count: int) -> list[LogRecord]:
    return [LogRecord(f"{name}{number}".encode(), b"x" * 100) for number in range(count)]


def test_batched_coordinator_cleanup_reads_the_state_again_after_each_batch() -> None:
    left = {key: numbered(key, 5) for key in "abc"}
    pieces = []
    for piece in decided_in_batches(list(left), lambda key: left[key], 400):
        pieces.append(piece)
        assert len(piece) <= 2
        for records in left.values():
            records[:] = [record for record in records if not any(record is done for done in piece)]
        left["c"].clear()
    assert sum(map(len, pieces)) == 10
    assert not any(left.values())


def test_batched_coordinator_cleanup_skips_keys_whose_append_is_refused() -> None:
    pieces = list(decided_in_batches("abc", lambda key: numbered(key, 5), 400))
    names = [bytes(record.key or b"").decode() for piece in pieces for record in piece]
    assert names == ["a0", "a1", "b0", "b1", "c0", "c1"]


def test_offset_committed_during_the_removal_of_expired_offsets_is_kept() -> None:
    world = ClassicGroupWorld()

    def commit(partitions: range, offset: int, now_ms: int) -> None:
        offsets = {("t", p): CommittedOffset(offset, -1, "", now_ms) for p in partitions}
        world.run(world.shard.commit("g", -1, "", None, offsets, now_ms, transactional=False))

    commit(range(50), 1, 0)
    now_ms = world.shard.config.offsets_retention_ms * 2
    sweep = world.shard.expire_offsets(now_ms, 200, 2_000)
    world.run(next(sweep))
    commit(range(49, 50), 777, now_ms)
    for result in sweep:
        world.run(result)
    assert {where: offset.offset for where, offset in world.shard.offsets.of_group("g").items()} == {("t", 49): 777}


def test_transactional_id_that_begins_a_transaction_during_id_expiration_is_kept() -> None:
    shard = TransactionShard(0, TxnConfig(id_expiration_ms=1_000), 2)
    for name in "abcdef":
        shard.ids[name] = TxnMetadata(name, 1, 0, 60_000, TxnState.EMPTY, update_ms=0)

    def run(result: Result[None]) -> int:
        for record in result.records:
            shard.replay(record)
        return len(result.records)

    sweep = shard.expire_ids(5_000, 100, 120)
    first = run(next(sweep))
    following = next(iter(shard.ids))
    shard.ids[following] = TxnMetadata(following, 1, 1, 60_000, TxnState.ONGOING, update_ms=5_000)
    assert first + sum(map(run, sweep)) == 5
    assert list(shard.ids) == [following]


def test_writing_cold_share_state_snapshots_does_not_undo_a_write_or_deletion() -> None:
    shard = ShareShard(
        0, ShareStateConfig(updates_per_snapshot=500, cold_snapshot_interval_ms=1_000), lambda topic, partition: True
    )
    keys = [ShareKey("g", bytes(16), partition) for partition in range(40)]

    def run(result: Result[None]) -> int:
        for record in result.records:
            shard.replay(record, 0)
        return len(result.records)

    for key in keys:
        run(shard.initialize(key, 1, 0, 0))
    sweep = shard.cold_snapshots(10_000, 600)
    following = keys[run(next(sweep))]
    run(shard.write(following, StateWrite(1, 0, 100, 5, ()), 10_000))
    run(shard.delete(keys[-1]))
    for result in sweep:
        run(result)
    assert shard.read_summary(following).start_offset == 100
    assert keys[-1] not in shard.persisted
