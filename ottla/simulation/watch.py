"""Checks the coordinators' states in memory after each step of a world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.transaction_states import TxnState
from ottla.simulation.node import Node

_OUTCOMES = {
    TxnState.PREPARE_COMMIT: True,
    TxnState.COMPLETE_COMMIT: True,
    TxnState.PREPARE_ABORT: False,
    TxnState.COMPLETE_ABORT: False,
}


class Watch:
    """The identity of a transactional id never goes back, and a decision is never changed, even over crashes.

    With several brokers an id has one coordinator at a time, and the same holds when the coordinator moves.
    """

    def __init__(self, finding: Callable[[str], None], reached: Counter[str]) -> None:
        self._finding = finding
        self._reached = reached
        self._last: dict[str, TxnMetadata] = {}

    def check(self, nodes: list[Node]) -> None:
        """Check all brokers whose code has run in the last step."""
        last = self._last
        for node in nodes:
            if node.has_worked and node.server is not None:
                node.has_worked = False
                for shard in node.server.transactions.shards():
                    for name, metadata in shard.ids.items():
                        before = last.get(name)
                        if before is not metadata:
                            if before is not None:
                                self._compare(before, metadata)
                            last[name] = metadata

    def _compare(self, before: TxnMetadata, after: TxnMetadata) -> None:
        name = after.transactional_id
        was, now = (before.producer_id, before.producer_epoch), (after.producer_id, after.producer_epoch)
        if now < was:
            self._finding(f"{name} was producer {was[0]} epoch {was[1]}, and is producer {now[0]} epoch {now[1]}")
        decided, outcome = _OUTCOMES.get(before.state), _OUTCOMES.get(after.state)
        if before.state in PREPARED and was == now and outcome is not None and outcome != decided:
            self._finding(f"{name} was in {before.state.label}, and is in {after.state.label} with the same epoch")

    def crashed(self, node: Node, *, may_lose: bool) -> None:
        """A broker has crashed. Its log has the same state as its memory, unless power was cut: then the last states are
        forgotten."""
        server = node.server
        if server is None:
            return
        logs = {(partition.log.topic, partition.log.partition): partition.log for partition in server.partitions}
        for shard in server.transactions.shards():
            for metadata in shard.ids.values():
                touched = [logs[where] for where in metadata.partitions if where in logs]
                self._note(metadata, sum(metadata.producer_id in log.producers.open_txns for log in touched))
        for partition in server.partitions:
            if partition.bytes_in > partition.appended_bytes and not partition.log.topic.startswith("__"):
                self._reached["a retry answered as a duplicate"] += 1
        if may_lose:
            self._last.clear()

    def _note(self, metadata: TxnMetadata, owed: int) -> None:
        if metadata.state is TxnState.ONGOING:
            self._reached["an end of life with a transaction open"] += 1
        elif metadata.state in PREPARED:
            if owed == len(metadata.partitions):
                self._reached["an end of life between Prepare and the first marker"] += 1
            elif owed:
                self._reached["an end of life between two markers"] += 1
            else:
                self._reached["an end of life between the last marker and Complete"] += 1
