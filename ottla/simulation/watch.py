"""Checks the transaction coordinators' states in memory after each step of a simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from ottla.broker.broker import BrokerServer
from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.transaction_states import TxnState
from ottla.simulation.node import Node

OUTCOMES = {
    TxnState.PREPARE_COMMIT: True,
    TxnState.COMPLETE_COMMIT: True,
    TxnState.PREPARE_ABORT: False,
    TxnState.COMPLETE_ABORT: False,
}


Identity = tuple[int, int]
"""Producer id and epoch."""


def _identity(metadata: TxnMetadata) -> Identity:
    return metadata.producer_id, metadata.producer_epoch


class Watch:
    """Checks during a simulation that a transactional id's producer id and epoch never decrease, and that after PrepareCommit or
    PrepareAbort the outcome never changes.

    A power cut may remove states that no response has shown to a client. After a power cut, only producer ids and epochs that
    were in responses are therefore compared; `simulation.checker` compares outcomes at the end. With several brokers only
    committed states are compared, because a new leader may not have an uncommitted state.
    """

    def __init__(self, finding: Callable[[str], None], reached: Counter[str], acknowledged: Mapping[str, Identity]) -> None:
        """``acknowledged`` has the newest producer id and epoch of each transactional id in a response so far."""
        self._finding = finding
        self._reached = reached
        self._acknowledged = acknowledged
        self._last: dict[str, TxnMetadata] = {}

    def check(self, nodes: list[Node[BrokerServer]]) -> None:
        """Check all brokers whose code has run since the last check."""
        last = self._last
        for node in nodes:
            if node.has_worked and node.server is not None:
                node.has_worked = False
                for shard in node.server.transactions.shards():
                    for name, metadata in shard.ids.items():
                        if last.get(name) is not metadata:
                            self.note(name, metadata)

    def note(self, name: str, metadata: TxnMetadata) -> None:
        """Compare the next state of a transactional id with its previous state."""
        before = self._last.get(name)
        if before is not None:
            self._compare(before, metadata)
        else:
            self._compare_acknowledged(name, _identity(metadata))
        self._last[name] = metadata

    def note_committed(self, name: str, metadata: TxnMetadata) -> None:
        """Compare the next committed state with the previous committed state. A response may show a newer state, because several
        states may be committed together."""
        before = self._last.get(name)
        if before is not None:
            self._compare(before, metadata)
        self._last[name] = metadata

    def check_acknowledged(self) -> None:
        """Check that each producer id and epoch that a client received is committed."""
        for name, acknowledged in self._acknowledged.items():
            last = self._last.get(name)
            if last is None or _identity(last) < acknowledged:
                self._finding(f"{name}: a client received producer {acknowledged[0]} epoch {acknowledged[1]}, uncommitted")

    def _compare(self, before: TxnMetadata, after: TxnMetadata) -> None:
        name = after.transactional_id
        was, now = _identity(before), _identity(after)
        if now < was:
            self._finding(f"{name} was producer {was[0]} epoch {was[1]}, and is producer {now[0]} epoch {now[1]}")
        decided, outcome = OUTCOMES.get(before.state), OUTCOMES.get(after.state)
        if before.state in PREPARED and was == now and outcome is not None and outcome != decided:
            self._finding(f"{name} was in {before.state.label}, and is in {after.state.label} with the same epoch")

    def _compare_acknowledged(self, name: str, now: Identity) -> None:
        """Check a transactional id whose earlier state is unknown, because the id is new or power was cut."""
        acknowledged = self._acknowledged.get(name)
        if acknowledged is not None and now < acknowledged:
            self._finding(
                f"{name} is producer {now[0]} epoch {now[1]}; a client had {acknowledged[0]} epoch {acknowledged[1]} before"
            )

    def lost_identities(self, nodes: list[Node[BrokerServer]]) -> list[str]:
        """Return one line for each transactional id that a client has seen in a response but no broker knows."""
        known = {
            name for node in nodes if node.server is not None for shard in node.server.transactions.shards() for name in shard.ids
        }
        return [
            f"{name} is lost; a client received producer {acknowledged[0]}"
            for name, acknowledged in self._acknowledged.items()
            if name not in known
        ]

    def crashed(self, node: Node[BrokerServer], *, may_lose: bool) -> None:
        """Count the rare states in which the broker crashed. If the log may lose records (power cut), forget the known states."""
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
                self._reached["a retry is answered as a duplicate"] += 1
        if may_lose:
            self._last.clear()

    def _note(self, metadata: TxnMetadata, pending: int) -> None:
        if metadata.state is TxnState.ONGOING:
            self._reached["a failure while a transaction is open"] += 1
        elif metadata.state in PREPARED:
            if pending == len(metadata.partitions):
                self._reached["a failure between Prepare and the first marker"] += 1
            elif pending:
                self._reached["a failure between two markers"] += 1
            else:
                self._reached["a failure between the last marker and Complete"] += 1
