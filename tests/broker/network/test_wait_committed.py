"""A coordinator's response waits until the state that it reports is committed, however the request was handled."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.loop.pending_response import Later
from ottla.broker.network.wait_committed import once_committed
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.steps import Steps
from tests.broker.partition_world import FollowedPartitionWorld


class CoordinatorPartitionWorld(FollowedPartitionWorld):
    """A coordinator's partition with a follower. ``answers`` are the responses that have been sent."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []

    def write(self) -> None:
        super().write()
        self.barrier.depend_on(self.partition)

    def leave(self, response: Any) -> None:
        """Send the response as a connection does: immediately, or when a pending response completes."""
        left = once_committed(self.barrier, response, lambda code: code)
        if isinstance(left, Later):
            left.on_ready(self.answers.append)
        else:
            self.answers.append(left)


def test_response_waits_until_its_own_write_is_committed() -> None:
    world = CoordinatorPartitionWorld()
    world.write()
    world.leave("written")
    assert world.answers == []
    world.fetched(1)
    assert world.answers == ["written"]


def test_response_waits_for_the_state_it_read_and_not_for_later_writes() -> None:
    world = CoordinatorPartitionWorld()
    world.write()
    world.barrier.take_dependencies()
    world.barrier.depend_on(world.partition)
    world.leave("read")
    world.write()
    world.fetched(1)
    assert world.answers == ["read"]


def test_response_without_dependencies_leaves_at_once() -> None:
    world = CoordinatorPartitionWorld()
    world.write()
    world.barrier.take_dependencies()
    world.leave("nothing")
    world.fetched(1)
    world.barrier.depend_on(world.partition)
    world.leave("committed")
    assert world.answers == ["nothing", "committed"]


def test_response_becomes_not_coordinator_when_the_leader_changes() -> None:
    world = CoordinatorPartitionWorld()
    world.write()
    world.leave("written")
    world.partition.follow(2, 1)
    assert world.answers == [Code.NOT_COORDINATOR]


def test_parked_response_waits_for_all_writes_before_it_is_made() -> None:
    world = CoordinatorPartitionWorld()
    world.barrier.depend_on(world.partition)
    parked = Later()
    world.leave(parked)
    world.write()
    world.write()
    world.fetched(1)
    parked.resolve("made")
    assert world.answers == []
    world.fetched(2)
    assert world.answers == ["made"]


def test_parked_request_answered_after_an_election_gets_not_coordinator() -> None:
    world = CoordinatorPartitionWorld()
    world.write()
    parked = Later()
    world.leave(parked)
    world.partition.follow(2, 1)
    parked.resolve("what may be lost")
    assert world.answers == [Code.NOT_COORDINATOR]


@pytest.mark.parametrize("is_elected_again", [False, True])
def test_write_of_a_step_before_an_election_gets_not_coordinator(*, is_elected_again: bool) -> None:
    world = CoordinatorPartitionWorld()

    def steps() -> Steps[str]:
        world.write()
        yield None
        if is_elected_again:
            world.barrier.depend_on(world.partition)
        return "written"

    handled = once_committed(world.barrier, steps(), lambda code: code)
    next(handled)
    world.partition.follow(2, 1)
    if is_elected_again:
        world.lead(2)
    with pytest.raises(StopIteration) as ended:
        next(handled)
    assert ended.value.value is Code.NOT_COORDINATOR


def test_parked_request_is_abandoned_with_its_client() -> None:
    world, gone = CoordinatorPartitionWorld(), list[str]()
    world.barrier.depend_on(world.partition)
    later = once_committed(world.barrier, Later(on_abandoned=lambda: gone.append("gone")), lambda code: code)
    later.abandon()
    assert gone == ["gone"]


@pytest.mark.parametrize("fails", [False, True])
def test_response_in_steps_waits_for_the_writes_of_every_step(*, fails: bool) -> None:
    world = CoordinatorPartitionWorld()

    def steps() -> Steps[str]:
        world.write()
        yield None
        try:
            yield lambda: None
        except ValueError:
            raise KafkaError(Code.INVALID_REQUEST) from None
        return "written"

    handled = once_committed(world.barrier, steps(), lambda code: code)
    next(handled)
    # Another request is handled between two steps of this one.
    world.barrier.take_dependencies()
    next(handled)
    with pytest.raises(StopIteration) as ended:
        if fails:
            handled.throw(ValueError())
        else:
            next(handled)
    ended.value.value.on_ready(world.answers.append)
    assert world.answers == []
    world.fetched(1)
    assert world.answers == [Code.INVALID_REQUEST if fails else "written"]
