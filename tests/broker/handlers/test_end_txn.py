"""EndTxn responds only when the decision, or the state that an error reveals, is committed."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.handlers.end_txn import failed, handle
from ottla.broker.partitions.partitions import Partition
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.simulation.broker import SimulatedBroker
from tests.broker.partition_world import OTHER, make_leader
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tests.support.handling import Handling


class FollowedCoordinator:
    """A broker whose transaction coordinator has a follower. The id "x" has an open transaction."""

    def __init__(self) -> None:
        self.simulated = SimulatedBroker({"transaction.state.log.num.partitions": "1"}).start()
        world = World(self.simulated, "ottla", "")
        for command in ("topic t", "A = init x", "produce A t"):
            perform(world, command)
        metadata = self.server.transactions.shard_of("x").ids["x"]
        self.identity = metadata.producer_id, metadata.producer_epoch
        self.lead(self.partition.log.leader_epoch)
        self.fetched()

    @property
    def server(self) -> Any:
        return self.simulated.broker

    @property
    def partition(self) -> Partition:
        found: Partition = self.server.partitions.get(TRANSACTION_TOPIC, 0)
        return found

    def lead(self, leader_epoch: int) -> None:
        start_offset = self.partition.log.log_end_offset
        leader = make_leader(leader_epoch=leader_epoch, start_offset=start_offset, now_ms=self.server.env.steady_ms())
        self.partition.lead(leader)

    def fetched(self) -> None:
        """Let the follower acknowledge all records."""
        self.partition.replica_fetched(OTHER, self.partition.log.log_end_offset, 0, 7)

    def end(self, *, transactional_id: str = "x") -> Handling[EndTxnResponse]:
        producer_id, epoch = self.identity
        request = EndTxnRequest(transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=True)
        return Handling(self._handled(request))

    async def _handled(self, request: EndTxnRequest) -> EndTxnResponse:
        try:
            return await handle(self.server, request, cast(Any, SimpleNamespace(version=5)))
        except KafkaError as error:
            return failed(request, 5, error.code)


@pytest.fixture
def coordinator() -> Iterator[FollowedCoordinator]:
    made = FollowedCoordinator()
    yield made
    made.simulated.close()
    assert made.simulated.bugs == 0


def test_end_txn_waits_until_the_followers_have_the_decision(coordinator: FollowedCoordinator) -> None:
    ending = coordinator.end()
    assert not ending.results
    coordinator.fetched()
    (response,) = ending.results
    assert (response.error_code, response.producer_epoch) == (Code.NONE, coordinator.identity[1] + 1)


def test_end_txn_gets_not_coordinator_when_the_coordinator_loses_leadership(coordinator: FollowedCoordinator) -> None:
    """TransactionStateManager maps the error of DelayedProduce on a former leader to NOT_COORDINATOR."""
    ending = coordinator.end()
    coordinator.partition.follow(OTHER, coordinator.partition.log.leader_epoch + 1)
    assert [response.error_code for response in ending.results] == [Code.NOT_COORDINATOR]


def test_error_of_end_txn_waits_until_the_followers_have_the_state_that_it_reveals(coordinator: FollowedCoordinator) -> None:
    ended, refused = coordinator.end(), coordinator.end()
    assert not refused.results, "the first request's Prepare record may be lost"
    coordinator.fetched()
    assert [response.error_code for response in refused.results] == [Code.CONCURRENT_TRANSACTIONS]
    assert ended.results


def test_error_of_end_txn_becomes_not_coordinator_when_the_coordinator_loses_leadership(coordinator: FollowedCoordinator) -> None:
    coordinator.end()
    refused = coordinator.end()
    coordinator.partition.follow(OTHER, coordinator.partition.log.leader_epoch + 1)
    assert [response.error_code for response in refused.results] == [Code.NOT_COORDINATOR]


def test_empty_transactional_id_is_refused_before_a_coordinator_is_looked_up(coordinator: FollowedCoordinator) -> None:
    """INVALID_REQUEST depends on no state, so it is also the response while the coordinator waits for its followers."""
    coordinator.end()
    assert [response.error_code for response in coordinator.end(transactional_id="").results] == [Code.INVALID_REQUEST]
