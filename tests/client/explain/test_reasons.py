"""Messages that explain to a user why consumers or a group make no progress."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.admin.groups import GroupDescription, GroupMember
from ottla.client.admin.positions import GroupPosition
from ottla.client.admin.transactions import OpenTransaction, TransactionDescription
from ottla.client.durations import SKEW_MS, elapsed_ms
from ottla.client.explain.diagnosis import StableOffset, WaitingGroup
from ottla.client.explain.reasons import ABORT_INTERVAL_MS, MAX_PARTITIONS_NAMED, open_text, why_group_waits, why_held

NOW_MS = 1_000_000


def holder(start_offset: int = 4_711) -> OpenTransaction:
    return OpenTransaction(
        topic="orders",
        partition=3,
        producer_id=7,
        producer_epoch=2,
        start_offset=start_offset,
        last_timestamp_ms=NOW_MS,
        coordinator_epoch=None,
    )


def transaction(state: str = "Ongoing", start_ms: int | None = NOW_MS - 42_000) -> TransactionDescription:
    return TransactionDescription(
        transactional_id="checkout-1",
        state=state,
        producer_id=7,
        epoch=2,
        timeout_ms=60_000,
        start_ms=start_ms,
        partitions=[("orders", 3)],
    )


def held(**fields: Any) -> StableOffset:
    return StableOffset(**{"topic": "orders", "partition": 3, "last_stable_offset": 4_711, "high_watermark": 9_120, **fields})


def test_explanation_of_blocked_readers_names_the_open_transaction() -> None:
    stands, do = why_held(held(holder=holder(), transaction=transaction()), NOW_MS)
    assert stands == (
        "read_committed consumers of orders:3 are held at 4,711 of 9,120: transaction of producer 7 epoch 2, transactional id"
        " checkout-1, open for 42.0 s, times out in 18.0 s; 4,409 records wait, including its own"
    )
    assert do == "wait for it, or abort it and fence its producer: ottla txn abort checkout-1"


def test_explanation_of_blocked_readers_uses_the_singular_for_one_waiting_record() -> None:
    stands, _ = why_held(held(holder=holder(), transaction=transaction(), high_watermark=4_712), NOW_MS)
    assert stands.endswith("; 1 record waits, its own")


def test_transaction_that_acls_may_hide_is_not_reported_as_hanging() -> None:
    """If a user aborted such a transaction, a running producer could lose records."""
    stands, do = why_held(held(holder=holder(), may_be_hidden=True), NOW_MS)
    assert "whose transactional id this user may not describe, or which hangs" in stands
    assert "before aborting it" in do and "--partition" not in do


def test_explanation_of_blocked_readers_names_a_timed_out_transaction() -> None:
    stands, _ = why_held(held(holder=holder(), transaction=transaction(start_ms=NOW_MS - 61_000)), NOW_MS)
    assert "which has timed out and is about to be aborted" in stands


def test_explanation_of_blocked_readers_names_a_transaction_beyond_its_timeout() -> None:
    start_ms = NOW_MS - 60_000 - ABORT_INTERVAL_MS - 1
    stands, _ = why_held(held(holder=holder(), transaction=transaction(start_ms=start_ms)), NOW_MS)
    assert ", which should have timed out 10.0 s ago, unless the broker's clock differs from the local clock;" in stands
    assert "about to be aborted" not in stands


def test_explanation_of_blocked_readers_names_clock_skew_between_client_and_broker() -> None:
    stands, _ = why_held(held(holder=holder(), transaction=transaction(start_ms=NOW_MS + SKEW_MS + 1)), NOW_MS)
    assert ", open for an unknown time, because the broker's clock is ahead of the local clock;" in stands
    assert "times out" not in stands


@given(start_ms=st.integers(-(1 << 42), 1 << 42), now_ms=st.integers(-(1 << 42), 1 << 42))
def test_elapsed_time_of_a_transaction_is_never_negative(start_ms: int, now_ms: int) -> None:
    assert (elapsed_ms(start_ms, now_ms) is None) == (start_ms - now_ms > SKEW_MS)
    assert (elapsed_ms(start_ms, now_ms) or 0) == max(0, now_ms - start_ms)
    assert "-" not in open_text(start_ms, 60_000, now_ms)


@pytest.mark.parametrize(("state", "outcome"), [("PrepareCommit", "commit"), ("PrepareAbort", "abort")])
def test_explanation_of_blocked_readers_names_a_decided_transaction_with_pending_markers(state: str, outcome: str) -> None:
    stands, do = why_held(held(holder=holder(), transaction=transaction(state)), NOW_MS)
    assert f"whose {outcome} is being completed" in stands
    assert "abort checkout-1" not in do, "a decided transaction cannot be aborted"


def test_explanation_of_blocked_readers_names_a_hanging_transaction_and_its_remedy() -> None:
    stands, do = why_held(held(holder=holder()), NOW_MS)
    assert "which no coordinator will end" in stands
    assert do == "it is hanging: end it with ottla txn abort --partition orders:3 --start-offset 4711"


def test_explanation_of_blocked_readers_says_that_a_partition_has_no_open_transaction() -> None:
    (line,) = why_held(held(last_stable_offset=9_120), NOW_MS)
    assert line == "orders:3 has no open transaction: read_committed consumers can read to its end, 9,120"
    (line,) = why_held(held(), NOW_MS)
    assert "has just ended; run the command again" in line


def group(state: str = "Stable", *, members: int = 1, epochs: tuple[int, ...] = (), lags: tuple[int, ...] = (5,)) -> WaitingGroup:
    described = GroupDescription(
        group_id="billing",
        group_type="consumer",
        state=state,
        epoch=9,
        assignor="uniform",
        members=[
            GroupMember(
                member_id=f"m{at}",
                instance_id=None,
                client_id=f"c{at}",
                host="/10.0.0.1",
                epoch=epochs[at] if epochs else 9,
                assignment={"orders": [at]},
                partitions=[("orders", at)],
            )
            for at in range(members)
        ],
        positions=[
            GroupPosition(topic="orders", partition=at, committed=100, end=100 + lag, lag=lag) for at, lag in enumerate(lags)
        ],
    )
    return WaitingGroup(group=described, held=[])


def test_explanation_of_group_lag_says_that_the_group_has_no_members() -> None:
    lines = why_group_waits(group(members=0, state="Empty", lags=(5, 7)), NOW_MS)
    assert lines[0] == "group billing has no members, so no records are read; its lag is 12 records"
    assert lines[1] == "orders:1: lag 7, at 100 of 107; no member reads it"


def test_explanation_of_group_lag_names_the_lagging_member() -> None:
    lines = why_group_waits(group(), NOW_MS)
    assert lines == [
        "group billing is Stable with 1 member; its lag is 5 records",
        "orders:0: lag 5, at 100 of 105; client c0 at 10.0.0.1 reads it",
    ]


def test_explanation_of_group_lag_names_the_member_that_a_rebalance_waits_for() -> None:
    (first, *_) = why_group_waits(group("Reconciling", members=2, epochs=(9, 8)), NOW_MS)
    assert first == "group billing is rebalancing (Reconciling) with 2 members, waiting for c1; its lag is 5 records"


def test_explanation_of_group_lag_says_that_the_group_has_no_lag() -> None:
    assert why_group_waits(group(lags=(0,)), NOW_MS) == [
        "group billing is Stable with 1 member",
        "the group has read all records",
    ]


def test_explanation_of_group_lag_names_partitions_without_a_committed_offset() -> None:
    waiting = group(lags=(0,), members=3)
    waiting.group.positions.extend(
        [
            GroupPosition(topic="orders", partition=1, committed=None, end=9, lag=None, start=4),
            GroupPosition(topic="orders", partition=2, committed=None, end=0, lag=None, start=0),
        ]
    )
    assert why_group_waits(waiting, NOW_MS) == [
        "group billing is Stable with 3 members; it has no committed offset in 2 partitions",
        "orders:1: no committed offset; from earliest it would read 5, 4 to 8; client c1 at 10.0.0.1 reads it",
        "orders:2: no committed offset, and no records to read; client c2 at 10.0.0.1 reads it",
    ]


def test_explanation_of_group_lag_uses_the_singular_for_one_record_and_partition() -> None:
    assert why_group_waits(group(lags=(1,)), NOW_MS)[0] == "group billing is Stable with 1 member; its lag is 1 record"
    assert why_group_waits(group(lags=(1,) * (MAX_PARTITIONS_NAMED + 1)), NOW_MS)[-1].startswith("and 1 more partition; ")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("a b", "ottla txn abort 'a b'"),
        ("-x", "ottla txn abort -- -x"),
        ("\u202eaio<script>", "ottla txn abort NAME, with the name that --json shows: some of its characters cannot be shown here"),
    ],
)
def test_explanation_quotes_the_transactional_id_in_the_suggested_command(name: str, command: str) -> None:
    _, do = why_held(held(holder=holder(), transaction=replace(transaction(), transactional_id=name)), NOW_MS)
    assert do == f"wait for it, or abort it and fence its producer: {command}"


def test_suggested_commands_have_the_given_connection_options() -> None:
    options = ["--bootstrap", "kafka:9092", "--client-config", "my client.properties"]
    given = "--bootstrap kafka:9092 --client-config 'my client.properties'"
    open_id = replace(transaction(), transactional_id="-x")
    _, abort = why_held(held(holder=holder(), transaction=open_id), NOW_MS, of_cluster=options)
    assert abort.endswith(f": ottla txn abort {given} -- -x")
    _, hanging = why_held(held(holder=holder()), NOW_MS, of_cluster=options)
    assert hanging.endswith(f" ottla txn abort --partition orders:3 --start-offset 4711 {given}")
    lines = why_group_waits(group(lags=(1,) * (MAX_PARTITIONS_NAMED + 1)), NOW_MS, of_cluster=options)
    assert lines[-1] == f"and 1 more partition; ottla group describe {given} billing shows all"


def test_explanation_of_group_lag_shortens_the_list_of_lagging_partitions() -> None:
    lines = why_group_waits(group(lags=tuple(range(1, 31))), NOW_MS)
    assert len(lines) == 1 + MAX_PARTITIONS_NAMED + 1
    assert lines[1].startswith("orders:29: lag 30"), "the partition with the largest lag is listed first"
    assert lines[-1] == f"and {30 - MAX_PARTITIONS_NAMED} more partitions; ottla group describe billing shows all"


def test_explanation_of_group_lag_names_a_transaction_with_pending_offsets() -> None:
    waiting = WaitingGroup(
        group=group(members=0, lags=()).group,
        held=[replace(held(holder=holder(), transaction=transaction()), topic="__consumer_offsets", partition=7)],
    )
    _, offsets, who, do = why_group_waits(waiting, NOW_MS)
    assert offsets == (
        "an open transaction has pending offsets in __consumer_offsets:7, which stores this group's offsets; "
        "if they are offsets of this group, its consumers wait for the transaction"
    )
    assert "transactional id checkout-1" in who
    assert do.startswith("wait for it, or abort it")


def test_explanation_of_group_lag_names_the_open_transaction_that_blocks_the_group() -> None:
    waiting = group(lags=(0, 0, 0, 5))
    lines = why_group_waits(WaitingGroup(group=waiting.group, held=[held(holder=holder(), transaction=transaction())]), NOW_MS)
    assert "transactional id checkout-1" in lines[1]
    assert len(lines) == 3, "the partition is listed once"
