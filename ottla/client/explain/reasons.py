"""Explains why read_committed consumers or a group do not advance, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Final

from ottla.client.admin.groups import CLASSIC
from ottla.client.admin.positions import GroupPosition, total_lag
from ottla.client.admin.transactions import TransactionDescription
from ottla.client.durations import duration_text, elapsed_ms
from ottla.client.explain.diagnosis import StableOffset, WaitingGroup
from ottla.client.wording import command_for, counted
from ottla.protocol.internal_topics import OFFSETS_TOPIC

MAX_PARTITIONS_NAMED = 10
"""Maximum number of partitions with lag that are listed. Further partitions are only counted."""
ABORT_INTERVAL_MS: Final = 10_000
"""Interval, in ms, at which Kafka's coordinator aborts timed-out transactions: the default of
transaction.abort.timed.out.transaction.cleanup.interval.ms. ottla's interval is shorter."""
NO_CLIENTS: Final[Mapping[str, str]] = {}
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def why_held(held: StableOffset, now_ms: int, clients: Mapping[str, str] = NO_CLIENTS, of_cluster: Sequence[str] = ()) -> list[str]:
    """Describe the transaction that holds back the last stable offset, and what the user can do. ``clients`` has the names of
    clients by transactional id, ``of_cluster`` the connection options of the suggested commands."""
    where = f"{held.topic}:{held.partition}"
    if not held.waiting:
        return [f"{where} has no open transaction: read_committed consumers can read to its end, {held.high_watermark:,}"]
    summary = f"read_committed consumers of {where} are held at {held.last_stable_offset:,} of {held.high_watermark:,}"
    if held.holder is None:
        return [f"{summary}: the transaction that held them has just ended; run the command again"]
    producer = f"producer {held.holder.producer_id} epoch {held.holder.producer_epoch}"
    behind = f"{held.waiting:,} records wait, including its own" if held.waiting > 1 else "1 record waits, its own"
    transaction = held.transaction
    if transaction is None and held.may_be_hidden:
        return [
            f"{summary}: a transaction of {producer}, whose transactional id this user may not describe, or which hangs; {behind}",
            "before aborting it, ask a user who may describe all transactional ids to run ottla txn why",
        ]
    if transaction is None:
        return [
            f"{summary}: a transaction of {producer}, which no coordinator will end; {behind}",
            f"it is hanging: end it with {_abort_hanging(where, held.holder.start_offset, of_cluster)}",
        ]
    name = transaction.transactional_id
    whose = name if name not in clients else f"{name} from {clients[name]}"
    if not transaction.is_ongoing:
        decided = "commit" if transaction.state == "PrepareCommit" else "abort"
        return [
            f"{summary}: transaction of {producer}, transactional id {whose}, whose {decided} is being completed; {behind}",
            "its marker is written as soon as the partition accepts it; the broker's log says what delays it",
        ]
    return [
        f"{summary}: transaction of {producer}, transactional id {whose}{_since(transaction, now_ms)}; {behind}",
        f"wait for it, or abort it and fence its producer: {command_for('ottla txn abort', name, of_cluster)}",
    ]


def _abort_hanging(partition: str, start_offset: int, of_cluster: Sequence[str]) -> str:
    options = ["--partition", partition, "--start-offset", str(start_offset), *of_cluster]
    return " ".join(["ottla txn abort", *map(quote, options)])


def _since(transaction: TransactionDescription, now_ms: int) -> str:
    return "" if transaction.start_ms is None else f", open for {open_text(transaction.start_ms, transaction.timeout_ms, now_ms)}"


def open_text(start_ms: int, timeout_ms: int, now_ms: int) -> str:
    """Describe how long an ongoing transaction has been open, and when it times out.

    A test can stop the broker's clock, so ``now_ms`` may differ from it. The text then says that the clocks differ, or that the
    transaction is overdue.
    """
    open_ms = elapsed_ms(start_ms, now_ms)
    if open_ms is None:
        return "an unknown time, because the broker's clock is ahead of the local clock"
    left_ms = timeout_ms - open_ms
    if left_ms > 0:
        left = f"times out in {duration_text(left_ms)}"
    elif left_ms >= -ABORT_INTERVAL_MS:
        left = "which has timed out and is about to be aborted"
    else:
        late = duration_text(-left_ms)
        left = f"which should have timed out {late} ago, unless the broker's clock differs from the local clock"
    return f"{duration_text(open_ms)}, {left}"


def why_group_waits(
    waiting: WaitingGroup, now_ms: int, clients: Mapping[str, str] = NO_CLIENTS, of_cluster: Sequence[str] = ()
) -> list[str]:
    """Describe why a group does not reach the end of its partitions, and what to do. The arguments are those of `why_held`."""
    group, behind = waiting.group, waiting.behind
    lines = [_of_members(waiting)]
    for held in waiting.held:
        if held.topic == OFFSETS_TOPIC:
            lines.append(
                f"an open transaction has pending offsets in {held.topic}:{held.partition}, which stores this group's offsets; "
                "if they are offsets of this group, its consumers wait for the transaction"
            )
        lines += why_held(held, now_ms, clients, of_cluster)
    told = {(held.topic, held.partition) for held in waiting.held}
    owners = {partition: member for member in group.members for partition in member.partitions}
    others = [position for position in behind if (position.topic, position.partition) not in told]
    for position in others[:MAX_PARTITIONS_NAMED]:
        owner = owners.get((position.topic, position.partition))
        reads = (
            f"client {owner.client_id} at {owner.host.removeprefix('/')} reads it" if owner is not None else "no member reads it"
        )
        where = f"{position.topic}:{position.partition}"
        lines.append(f"{where}: {_how_far(position)}; {reads}")
    if len(others) > MAX_PARTITIONS_NAMED:
        more = counted(len(others) - MAX_PARTITIONS_NAMED, "more partition")
        lines.append(f"and {more}; {command_for('ottla group describe', group.group_id, of_cluster)} shows all")
    if not behind and not waiting.held:
        lines.append("the group has read all records")
    return lines


def _how_far(position: GroupPosition) -> str:
    if position.committed is not None:
        return f"lag {position.unread:,}, at {position.committed:,} of {position.end:,}"
    if position.unread:
        return (
            f"no committed offset; from earliest it would read {position.unread:,}, {position.start or 0:,} to {position.end - 1:,}"
        )
    return "no committed offset, and no records to read"


def _of_members(waiting: WaitingGroup) -> str:
    group = waiting.group
    name = f"group {group.group_id}"
    total = total_lag(waiting.behind)
    behind = f"; its lag is {counted(total.known, 'record')}" if total.known else ""
    if total.uncommitted:
        behind += f"; it has no committed offset in {counted(total.uncommitted, 'partition')}"
    if not group.members:
        return f"{name} has no members, so no records are read{behind}"
    count = counted(len(group.members), "member")
    if group.state in _REBALANCING:
        return f"{name} is rebalancing ({group.state}) with {count}{_late(waiting)}{behind}"
    return f"{name} is {group.state} with {count}{behind}"


def _late(waiting: WaitingGroup) -> str:
    group = waiting.group
    if group.group_type == CLASSIC or group.epoch is None:
        return ""
    late = sorted(m.client_id for m in group.members if m.epoch is not None and m.epoch < group.epoch)
    return f", waiting for {', '.join(late[:MAX_PARTITIONS_NAMED])}" if late else ""
