"""Responses of coordinators wait until the state they report is committed, however the request was handled."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.network.wait_committed import response_once_committed
from ottla.protocol.errors import Code
from ottla.protocol.steps import Pause, Steps, in_thread, next_turn
from tests.broker.partition_world import FollowedPartitionWorld
from tests.support.handling import Handling


class CoordinatorPartitionWorld(FollowedPartitionWorld):
    """A coordinator's partition with a follower, and the responses that were sent."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []

    def write(self) -> None:
        super().write()
        self.barrier.depend_on(self.partition)

    def handle(self, handler: Steps[Any]) -> Handling[Any]:
        return Handling(response_once_committed(self.barrier, handler, lambda code: code), self.answers.append)

    async def writing(self) -> str:
        self.write()
        return "written"

    async def reading(self) -> str:
        self.barrier.depend_on(self.partition)
        return "read"


def test_response_waits_until_its_own_write_is_committed() -> None:
    world = CoordinatorPartitionWorld()
    world.handle(world.writing())
    assert world.answers == []
    world.fetched(1)
    assert world.answers == ["written"]


def test_response_waits_for_writes_it_depends_on_and_not_for_later_writes() -> None:
    world = CoordinatorPartitionWorld()
    world.write()
    world.handle(world.reading())
    world.write()
    world.fetched(1)
    assert world.answers == ["read"]


def test_response_that_depends_on_no_write_is_sent_at_once() -> None:
    world = CoordinatorPartitionWorld()

    async def nothing() -> str:
        return "nothing"

    world.write()
    world.handle(nothing())
    world.fetched(1)
    world.handle(world.reading())
    assert world.answers == ["nothing", "read"]


def test_response_becomes_not_coordinator_when_the_leader_changes() -> None:
    world = CoordinatorPartitionWorld()
    world.handle(world.writing())
    world.partition.follow(2, 1)
    assert world.answers == [Code.NOT_COORDINATOR]


def test_response_of_a_parked_request_waits_for_all_earlier_writes() -> None:
    world, parked = CoordinatorPartitionWorld(), Pause[str](is_parked=True)

    async def waits() -> str:
        world.barrier.depend_on(world.partition)
        return await parked

    world.handle(waits())
    world.write()
    world.write()
    world.fetched(1)
    parked.end("made")
    assert world.answers == []
    world.fetched(2)
    assert world.answers == ["made"]


def test_parked_request_answered_after_an_election_gets_not_coordinator() -> None:
    world, parked = CoordinatorPartitionWorld(), Pause[str](is_parked=True)

    async def waits() -> str:
        world.write()
        return await parked

    world.handle(waits())
    world.partition.follow(2, 1)
    parked.end("a decision that may be lost")
    assert world.answers == [Code.NOT_COORDINATOR]


@pytest.mark.parametrize("is_elected_again", [False, True])
def test_request_that_wrote_before_an_election_gets_not_coordinator(*, is_elected_again: bool) -> None:
    world = CoordinatorPartitionWorld()

    async def in_two_steps() -> str:
        world.write()
        await next_turn()
        if is_elected_again:
            world.barrier.depend_on(world.partition)
        return "written"

    handled = response_once_committed(world.barrier, in_two_steps(), lambda code: code)
    handled.send(None)
    world.partition.follow(2, 1)
    if is_elected_again:
        world.lead(2)
    with pytest.raises(StopIteration) as ended:
        handled.send(None)
    assert ended.value.value is Code.NOT_COORDINATOR


def test_parked_request_is_cancelled_when_its_client_disconnects() -> None:
    world, gone = CoordinatorPartitionWorld(), list[str]()

    async def waits() -> str:
        world.barrier.depend_on(world.partition)
        try:
            return await Pause[str](is_parked=True)
        finally:
            gone.append("gone")

    world.handle(waits()).cancel()
    assert gone == ["gone"]


@pytest.mark.parametrize("fails", [False, True])
def test_response_waits_for_the_writes_of_every_step_of_its_request(*, fails: bool) -> None:
    world = CoordinatorPartitionWorld()

    async def in_three_steps() -> Any:
        world.write()
        await next_turn()
        try:
            await in_thread(lambda: None)
        except ValueError:
            return Code.INVALID_REQUEST
        return "written"

    handled = response_once_committed(world.barrier, in_three_steps(), lambda code: code)
    handled.send(None)
    # Another request is handled between two steps of this request.
    world.barrier.take_dependencies()
    handled.send(None)
    pause = handled.throw(ValueError()) if fails else handled.send(None)
    assert isinstance(pause, Pause)
    world.fetched(1)
    with pytest.raises(StopIteration) as ended:
        handled.send(None)
    assert ended.value.value == (Code.INVALID_REQUEST if fails else "written")


def test_response_waits_for_its_write_although_it_resumes_a_parked_request() -> None:
    """After its write, the leader's SyncGroup resumes the parked requests of the other members."""
    world, assigned = CoordinatorPartitionWorld(), Pause[str](is_parked=True)

    async def of_a_member() -> str:
        world.barrier.depend_on(world.partition)
        return await assigned

    async def of_the_leader() -> str:
        world.write()
        assigned.end("assigned")
        return "written"

    world.handle(of_a_member())
    world.handle(of_the_leader())
    assert world.answers == []
    world.fetched(1)
    assert sorted(world.answers) == ["assigned", "written"]
