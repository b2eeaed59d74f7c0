"""Why readers wait: what holds the last stable offset of a partition, and what a group waits for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ottla.client import groups, transactions
from ottla.client.brokers import Brokers
from ottla.client.groups import GroupDescription, GroupPosition
from ottla.client.offsets import LATEST, list_offsets
from ottla.client.transactions import OpenTransaction, Transaction
from ottla.protocol.transaction_states import TxnState

OPEN_STATES: Final = (TxnState.ONGOING.label, TxnState.PREPARE_COMMIT.label, TxnState.PREPARE_ABORT.label)
"""In which a coordinator will still end a transaction."""


@dataclass(slots=True, frozen=True)
class Held:
    """How far readers of committed records get in a partition, and what holds them.

    ``holder`` is the open transaction that begins at the last stable offset, None where nothing is held. ``transaction`` is what
    its coordinator knows of it, None where no transactional id has its producer id, or where the one that has it has ended.
    """

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int
    holder: OpenTransaction | None = None
    transaction: Transaction | None = None

    @property
    def waiting(self) -> int:
        """How many offsets lie behind the last stable one, those of the transactions themselves among them."""
        return self.high_watermark - self.last_stable_offset


def held(brokers: Brokers, topic: str, indexes: Iterable[int] | None = None) -> list[Held]:
    """Each partition of a topic, or each of those named, in their order."""
    wanted = sorted(brokers.partitions(topic) if indexes is None else indexes)
    stable = list_offsets(brokers, topic, wanted, LATEST, committed=True)
    ends = list_offsets(brokers, topic, wanted, LATEST)
    waiting = [index for index in wanted if stable[index] < ends[index]]
    holders = _holders(brokers, topic, waiting, stable) if waiting else {}
    known = _known(brokers, holders.values())
    return [
        Held(
            topic=topic,
            partition=index,
            last_stable_offset=stable[index],
            high_watermark=ends[index],
            holder=holders.get(index),
            transaction=known.get(holders[index].producer_id) if index in holders else None,
        )
        for index in wanted
    ]


def _holders(brokers: Brokers, topic: str, indexes: list[int], stable: dict[int, int]) -> dict[int, OpenTransaction]:
    """Partition -> the open transaction that begins first, unless it began after the offsets were asked for."""
    holders: dict[int, OpenTransaction] = {}
    for transaction in transactions.open_transactions(brokers, topic, indexes):
        if transaction.start_offset <= stable[transaction.partition]:
            holders.setdefault(transaction.partition, transaction)
    return holders


def _known(brokers: Brokers, holders: Iterable[OpenTransaction]) -> dict[int, Transaction]:
    """Producer id -> the transaction that its coordinator is going to end."""
    wanted = {holder.producer_id for holder in holders}
    if not wanted:
        return {}
    known: dict[int, Transaction] = {}
    for listing in transactions.list_transactions(brokers, producer_ids=wanted):
        transaction = transactions.describe_if_known(brokers, listing.transactional_id)
        if transaction is not None and transaction.state in OPEN_STATES and transaction.producer_id in wanted:
            known[transaction.producer_id] = transaction
    return known


@dataclass(slots=True, frozen=True)
class WaitingGroup:
    """A group, and what holds it in the partitions in which it stands at the last stable offset."""

    group: GroupDescription
    held: list[Held]

    @property
    def behind(self) -> list[GroupPosition]:
        """Where it has records left to read, the most first."""
        return sorted((p for p in self.group.positions if p.lag > 0), key=lambda p: -p.lag)


def waiting_group(brokers: Brokers, group: str) -> WaitingGroup:
    """Raises `KafkaAnswered` where there is no such group."""
    described = groups.describe(brokers, group)
    behind: dict[str, dict[int, GroupPosition]] = {}
    for position in described.positions:
        if position.lag > 0:
            behind.setdefault(position.topic, {})[position.partition] = position
    holding = []
    for topic, positions in sorted(behind.items()):
        for one in held(brokers, topic, positions):
            if one.holder is not None and positions[one.partition].committed >= one.last_stable_offset:
                holding.append(one)
    return WaitingGroup(group=described, held=holding)
