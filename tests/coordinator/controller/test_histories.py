"""Invariants of leaders, epochs and in-sync replicas hold after every command of a random cluster history."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from ottla.coordinator.controller import elections, in_sync, reassignment, registrations
from ottla.coordinator.controller import heartbeats as beating
from ottla.coordinator.controller.in_sync import PartitionAsked
from ottla.coordinator.controller.placement import placed
from ottla.coordinator.metadata.partition_registration import NO_LEADER, RECOVERED, RECOVERING, PartitionRegistration
from ottla.coordinator.result import Result
from ottla.protocol.errors import KafkaError
from tests.coordinator.cluster.states import seen
from tests.coordinator.controller.world import ControllerWorld, directory
from tests.support.levels import seeds

BROKERS = range(1, 6)
COMMANDS = 150


class History:
    """A random history of commands. After each command, every partition is compared with its previous state."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = ControllerWorld(4, has_elr=bool(seed % 3))
        self.leaders: dict[tuple[bytes, int, int], int] = {}
        """Leader by topic id, partition and leader epoch."""
        self.reached: set[str] = set()

    def play(self) -> None:
        for _ in range(COMMANDS):
            self.world.now_ms += self.random.choice([1, 500, 4_000])
            before = {(topic.topic_id, index): topic.partitions[index] for topic, index in self.world.where()}
            command = self.random.choice(self.commands())
            try:
                self.world.run_retried(command)
            except KafkaError as error:
                self.reached.add(error.code.name)
            self.check(before)

    def commands(self) -> list[Callable[[], Result[Any]]]:
        random, world, state = self.random, self.world, self.world.state
        broker = random.choice(BROKERS)
        some = list(state.registrations.brokers)
        name = random.choice("tuv")
        topic = state.topics.get(name)
        index = random.randrange(topic.partition_count) if topic is not None else 0
        replicas = tuple(random.sample(BROKERS, random.randint(1, 3)))
        configs = {
            "unclean.leader.election.enable": random.choice(["true", "false", "false"]),
            "min.insync.replicas": random.choice("123"),
        }

        def create() -> Result[Any]:
            factor = random.randint(1, 3)
            return state.create_topic(name, random.randbytes(16), 3, configs, placed(state, 3, factor, random.randrange))

        def register() -> Result[Any]:
            world.incarnations[broker] = world.incarnations.get(broker, 0) + random.choice([0, 1])
            before = state.registrations.brokers.get(broker)
            previous = before.broker_epoch if before is not None and random.random() < 0.5 else -1
            return world.registered(broker, previous_broker_epoch=previous)

        def beat() -> Result[Any]:
            one = random.choice(some or [0])
            offset = len(world.log) - random.choice([0, 0, 0, 30])
            wants = {"want_fence": random.random() < 0.1, "want_shut_down": random.random() < 0.15}
            offline = (directory(one),) if random.random() < 0.05 else ()
            return (
                world.heartbeat(one, current_metadata_offset=offset, offline_directories=offline, **wants) if some else Result(None)
            )

        def alter() -> Result[Any]:
            if topic is None:
                return Result(None)
            partition = topic.partitions[index]
            isr = {partition.leader, *random.sample(partition.replicas, random.randint(0, len(partition.replicas)))}
            asked = PartitionAsked(
                topic_id=topic.topic_id,
                index=index,
                leader_epoch=partition.leader_epoch + random.choice([0, 0, 0, 0, -1, 1]),
                partition_epoch=partition.partition_epoch + random.choice([0, 0, 0, 0, -1, 1]),
                isr=tuple((r, random.choice([-1, -1, 0])) for r in sorted(isr)),
                leader_recovery_state=random.choice([RECOVERED, partition.leader_recovery_state]),
            )
            leader = partition.leader if partition.leader in state.registrations.brokers else broker
            epoch = world.epoch(leader) if leader in state.registrations.brokers else -1
            return in_sync.alter_partitions(state, leader, epoch, [asked])

        usual = [
            beat,
            beat,
            beat,
            alter,
            alter,
            register,
            lambda: beating.fence_expired_broker(state, world.heartbeats, world.now_ms),
            lambda: elections.elect_leaders(state, random.choice([0, 1]), random.choice([None, [(name, [index])]])),
            lambda: elections.rebalance_leaders(state, 2),
            lambda: elections.elect_unclean_leaders(state, 2),
            lambda: reassignment.reassign(state, {(name, index): random.choice([None, replicas, replicas])}),
        ]
        rare: list[Callable[[], Result[Any]]] = [
            lambda: registrations.unregister_broker(state, broker),
            lambda: registrations.allocate_producer_ids(state, broker, world.epoch(broker) if broker in some else 0),
            lambda: state.delete_topic(name),
            lambda: state.set_configs(2, name, configs) if topic is not None else Result(None),
        ]
        return [*usual, *usual, create, create, *rare]

    def check(self, before: dict[tuple[bytes, int], PartitionRegistration]) -> None:
        world, state = self.world, self.world.state
        assert seen(world.reloaded()) == seen(state)
        for topic, index in world.where():
            after = topic.partitions[index]
            was = before.get((topic.topic_id, index))
            self.check_one(state, topic.name, after, was)
            if after.has_leader:
                key = (topic.topic_id, index, after.leader_epoch)
                assert self.leaders.setdefault(key, after.leader) == after.leader, "a leader epoch has at most one leader"

    def check_one(self, state: Any, name: str, after: PartitionRegistration, was: PartitionRegistration | None) -> None:
        assert after.replicas and len(set(after.replicas)) == len(after.replicas)
        assert set(after.isr) <= set(after.replicas) and not set(after.isr) & set(after.elr)
        assert not after.has_leader or after.leader in after.isr
        if after.has_leader:
            broker = state.registrations.brokers.get(after.leader)
            assert broker is not None and not broker.is_fenced, "a fenced broker leads no partition"
        for replica in after.isr:
            if len(after.isr) > 1:
                assert not state.registrations.brokers[replica].is_fenced
        if was is None or was is after or was == after:
            return
        self.reached |= {"elr"} if after.elr else set()
        assert after.partition_epoch > was.partition_epoch and after.leader_epoch >= was.leader_epoch
        if after.leader != was.leader:
            assert after.leader_epoch > was.leader_epoch
            self.reached.add("leaderless" if after.leader == NO_LEADER else "elected")
        if was.is_reassigning and not after.is_reassigning:
            self.reached.add("reassigned")
        if after.has_leader and after.leader not in was.isr and after.leader not in was.elr:
            # The new leader was neither in sync nor eligible: an unclean election, after which the leader must be recovering.
            self.reached.add("unclean")
            assert after.leader_recovery_state == RECOVERING and after.isr == (after.leader,)


@pytest.mark.parametrize("seed", seeds(12, in_check=4))
def test_random_cluster_histories_keep_the_invariants(seed: int) -> None:
    History(seed).play()


@pytest.mark.smoke
def test_random_cluster_histories_reach_rare_states() -> None:
    reached: set[str] = set()
    for seed in range(100, 112):
        history = History(seed)
        history.play()
        reached |= history.reached
    assert reached >= {
        "DUPLICATE_BROKER_REGISTRATION",
        "BROKER_ID_NOT_REGISTERED",
        "INVALID_REPLICATION_FACTOR",
        "TOPIC_ALREADY_EXISTS",
        "elected",
        "leaderless",
        "reassigned",
        "unclean",
        "elr",
    }


def test_partition_registration_equality_compares_all_fields() -> None:
    """The histories compare partitions with ==, which must therefore compare all fields."""
    one = PartitionRegistration(replicas=(1, 2), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
    for change in ({"elr": (2,)}, {"last_known_elr": (2,)}, {"directories": (b"a" * 16, b"b" * 16)}, {"leader_epoch": 1}):
        assert msgspec.structs.replace(one, **change) != one
