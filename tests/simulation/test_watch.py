"""Invariants also hold across crashes: an acknowledged producer id and epoch survive a power cut."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.protocol.transaction_states import TxnState
from ottla.simulation.node import Node
from ottla.simulation.watch import Watch


class Coordinator:
    """A broker with one shard of transactional ids, whose state a test sets."""

    def __init__(self) -> None:
        self.ids: dict[str, TxnMetadata] = {}
        self.acknowledged: dict[str, tuple[int, int]] = {}
        self.findings: list[str] = []
        self.watch = Watch(self.findings.append, Counter(), self.acknowledged)
        server = SimpleNamespace(transactions=SimpleNamespace(shards=lambda: [SimpleNamespace(ids=self.ids)]), partitions=[])
        self._node = SimpleNamespace(server=server, has_worked=False)

    @property
    def node(self) -> Node:
        return cast(Any, self._node)

    def becomes(self, producer_id: int, epoch: int, state: TxnState = TxnState.ONGOING) -> None:
        metadata = TxnMetadata(
            transactional_id="shop", producer_id=producer_id, producer_epoch=epoch, timeout_ms=1_000, state=state
        )
        self.ids["shop"] = metadata
        self._node.has_worked = True
        self.watch.check([self.node])

    def loses_power(self) -> None:
        self.watch.crashed(self.node, may_lose=True)
        self.ids.clear()


def test_simulation_check_permits_the_loss_of_an_unacknowledged_producer_id_and_epoch() -> None:
    coordinator = Coordinator()
    coordinator.becomes(7, 3)
    coordinator.loses_power()
    coordinator.becomes(7, 2)
    assert coordinator.findings == []


def test_simulation_check_reports_the_loss_of_an_acknowledged_producer_id_and_epoch() -> None:
    coordinator = Coordinator()
    coordinator.becomes(7, 3)
    coordinator.acknowledged["shop"] = (7, 3)
    coordinator.loses_power()
    coordinator.becomes(7, 2)
    assert coordinator.findings == ["shop is producer 7 epoch 2; a client had 7 epoch 3 before"]


def test_simulation_check_reports_a_lost_transactional_id_that_was_acknowledged() -> None:
    coordinator = Coordinator()
    coordinator.becomes(7, 3)
    coordinator.acknowledged["shop"] = (7, 3)
    assert coordinator.watch.lost_identities([coordinator.node]) == []
    coordinator.loses_power()
    assert coordinator.watch.lost_identities([coordinator.node]) == ["shop is lost; a client received producer 7"]


def test_simulation_check_reports_a_decreased_producer_epoch_and_a_changed_decision() -> None:
    coordinator = Coordinator()
    coordinator.becomes(7, 3, TxnState.PREPARE_COMMIT)
    coordinator.becomes(7, 3, TxnState.COMPLETE_ABORT)
    coordinator.becomes(7, 2)
    assert len(coordinator.findings) == 2
