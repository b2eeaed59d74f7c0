"""Answers of coordinators wait until what they tell of is committed, however the request was handled."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from ottla.broker.disk_health import DiskHealth
from ottla.broker.gate import Gate
from ottla.broker.later import Later
from ottla.broker.network.committed import once_committed
from ottla.broker.partitions import Partition
from ottla.coordinator.replication.leader import new_leader
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import build_batch
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.log import Log
from ottla.storage.steps import Steps


class World:
    """A coordinator's partition with a follower, which has fetched nothing yet, and the answers that have left."""

    def __init__(self) -> None:
        env = self.env = cast(Any, SimulatedEnv(MemoryFilesystem(), random.Random(1), START_MS))
        self.gate = Gate(None)
        self.gate.is_replicated = True
        log = Log(env.fs, "/t-0", "t", 0, LogConfig(), bytes(16))
        self.partition = Partition(env, log, self.gate, DiskHealth(env, "/"), 1, is_led=False)
        self.answers: list[Any] = []
        self.elected(0)

    def elected(self, leader_epoch: int) -> None:
        self.partition.lead(
            new_leader(
                broker_id=1,
                leader_epoch=leader_epoch,
                start_offset=self.partition.log.log_end_offset,
                replicas=[1, 2],
                in_sync=[1, 2],
                partition_epoch=0,
                max_lag_ms=30_000,
                min_in_sync=1,
                live_epoch=lambda _: 7,
                now_ms=self.env.steady_ms(),
            )
        )

    def write(self) -> None:
        self.partition.append_own(build_batch([(b"k", b"v")], START_MS))
        self.gate.stand_on(self.partition)

    def fetched(self, offset: int) -> None:
        self.partition.replica_fetched(2, offset, 0, 7)

    def leave(self, response: Any) -> None:
        """As a connection: wait for what comes later."""
        left = once_committed(self.gate, response, lambda code: code)
        if isinstance(left, Later):
            left.on_ready(self.answers.append)
        else:
            self.answers.append(left)


def test_an_answer_waits_for_what_it_has_written() -> None:
    world = World()
    world.write()
    world.leave("written")
    assert world.answers == []
    world.fetched(1)
    assert world.answers == ["written"]


def test_an_answer_waits_for_what_it_has_read_and_not_for_what_came_after() -> None:
    world = World()
    world.write()
    world.gate.take_standing()
    world.gate.stand_on(world.partition)
    world.leave("read")
    world.write()
    world.fetched(1)
    assert world.answers == ["read"]


def test_an_answer_that_stands_on_nothing_leaves_at_once() -> None:
    world = World()
    world.write()
    world.gate.take_standing()
    world.leave("nothing")
    world.fetched(1)
    world.gate.stand_on(world.partition)
    world.leave("committed")
    assert world.answers == ["nothing", "committed"]


def test_where_another_broker_leads_meanwhile_the_coordinator_is_elsewhere() -> None:
    world = World()
    world.write()
    world.leave("written")
    world.partition.follow(2, 1)
    assert world.answers == [Code.NOT_COORDINATOR]


def test_an_answer_that_comes_later_waits_for_all_that_is_written_when_it_is_made() -> None:
    world = World()
    world.gate.stand_on(world.partition)
    parked = Later()
    world.leave(parked)
    world.write()
    world.write()
    world.fetched(1)
    parked.resolve("made")
    assert world.answers == []
    world.fetched(2)
    assert world.answers == ["made"]


def test_a_parked_request_that_is_answered_after_the_election_is_told_that_the_coordinator_is_elsewhere() -> None:
    world = World()
    world.write()
    parked = Later()
    world.leave(parked)
    world.partition.follow(2, 1)
    parked.resolve("what may be lost")
    assert world.answers == [Code.NOT_COORDINATOR]


@pytest.mark.parametrize("is_elected_again", [False, True])
def test_what_a_step_has_written_before_an_election_is_not_told_after_it(*, is_elected_again: bool) -> None:
    world = World()

    def steps() -> Steps[str]:
        world.write()
        yield None
        if is_elected_again:
            world.gate.stand_on(world.partition)
        return "written"

    handled = once_committed(world.gate, steps(), lambda code: code)
    next(handled)
    world.partition.follow(2, 1)
    if is_elected_again:
        world.elected(2)
    with pytest.raises(StopIteration) as ended:
        next(handled)
    assert ended.value.value is Code.NOT_COORDINATOR


def test_a_client_that_has_gone_takes_its_parked_request_along() -> None:
    world, gone = World(), list[str]()
    world.gate.stand_on(world.partition)
    later = once_committed(world.gate, Later(on_abandoned=lambda: gone.append("gone")), lambda code: code)
    later.abandon()
    assert gone == ["gone"]


@pytest.mark.parametrize("fails", [False, True])
def test_steps_stand_on_what_any_of_them_has_noted(*, fails: bool) -> None:
    world = World()

    def steps() -> Steps[str]:
        world.write()
        yield None
        try:
            yield lambda: None
        except ValueError:
            raise KafkaError(Code.INVALID_REQUEST) from None
        return "written"

    handled = once_committed(world.gate, steps(), lambda code: code)
    next(handled)
    # Another request comes in between.
    world.gate.take_standing()
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
