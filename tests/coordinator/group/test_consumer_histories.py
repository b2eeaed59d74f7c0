"""Random histories of consumer groups: failed appends change no state, a reload restores the live state, and groups converge."""

from __future__ import annotations

import random

import pytest

from ottla.coordinator.group.consumer.group import ConsumerGroupState, held_partitions
from ottla.coordinator.group.consumer.requests import ConsumerHeartbeat
from ottla.coordinator.group.modern.group import late_members
from ottla.protocol.errors import KafkaError
from tests.coordinator.consumer_world import Consumer, ConsumerGroupWorld, decided
from tests.coordinator.group_world import BATCH_BYTES, GROUP, topic_id
from tests.coordinator.heartbeats import consumer_heartbeat
from tests.support.levels import seeds

STEPS = 120
IDS = ("a", "b", "c", "d")


class ConsumerHistoryWorld(ConsumerGroupWorld):
    def check(self) -> None:
        for group in self.shard.groups.values():
            held = held_partitions(group.members)
            assert all(len(holders) == 1 for holders in held.values()), "a partition has two owners"
            assert {(t, p): [m] for t, ps in group.holders.items() for p, m in ps.items()} == held
            assert group.sessions_ms.keys() == group.members.keys()
            assert group.targets.keys() <= group.members.keys()
        self.check_reloaded()

    def try_beat(self, beat: ConsumerHeartbeat, consumer: Consumer, *, is_lost: bool) -> None:
        try:
            answer = self.run_retried(lambda: decided(self.shard, beat, self.now_ms))
        except KafkaError:
            consumer.epoch, consumer.owned = 0, {}
            return
        if not is_lost:
            consumer.take(answer)


def step(world: ConsumerHistoryWorld, rng: random.Random, consumers: list[Consumer]) -> None:
    consumer = rng.choice(consumers)
    kind = rng.random()
    if kind < 0.06:
        topic = rng.choice("tv")
        world.topics.counts[topic] = rng.randrange(1, 9)
        world.shard.topic_changed(topic)
        return
    if kind < 0.12:
        world.now_ms += rng.choice([1_000, 10_000, 46_000])
        before = world.snapshot()
        refused = [group_id for group_id, _ in world.shard.tick(world.now_ms, BATCH_BYTES)]
        assert world.snapshot() == before
        world.tick(1_000)
        assert not refused or not late_members(world.group, world.now_ms - 1_000)
        return
    leaves = kind < 0.2 and consumer.epoch > 0
    epoch = rng.choice([-1, -2]) if leaves and consumer.instance_id else -1 if leaves else consumer.epoch
    joins = consumer.epoch == 0 and not leaves
    if joins and consumer.instance_id is not None:
        consumer.member_id = f"{consumer.instance_id}-{len(world.log)}"
    says_all = joins or rng.random() < 0.3
    beat = consumer_heartbeat(
        GROUP,
        consumer.member_id,
        epoch,
        instance_id=consumer.instance_id,
        rebalance_timeout_ms=20_000 if says_all else -1,
        topic_names=rng.choice([["t"], ["t", "u"], ["u"], []]) if says_all else None,
        topic_regex=rng.choice([None, "", "t|v", "[uv]"]) if says_all else None,
        assignor=rng.choice([None, "range", "uniform"]) if says_all else None,
        owned={} if joins else rng.choice([consumer.owned, consumer.owned, None]),
    )
    world.try_beat(beat, consumer, is_lost=rng.random() < 0.2)
    if leaves:
        consumer.epoch, consumer.owned = 0, {}


@pytest.mark.smoke
@pytest.mark.parametrize("seed", seeds(4, in_check=1))
def test_random_consumer_group_histories_end_with_every_partition_owned_once(seed: int) -> None:
    rng, world = random.Random(seed), ConsumerHistoryWorld()
    world.topics.counts["u"] = 3
    consumers = [Consumer(m) for m in IDS] + [Consumer("", "i1"), Consumer("", "i2")]
    for _ in range(STEPS):
        step(world, rng, consumers)
    assert world.failed_appends > 10
    # After the remaining members have reconciled, every partition has an owner.
    world.now_ms += 100_000
    world.tick(0)
    living = [Consumer("x"), Consumer("y")]
    for consumer in living:
        world.join(consumer, "t", "u")
    world.settle(*living)
    world.settle(*living)
    assert world.group.state is ConsumerGroupState.STABLE
    for topic in ("t", "u"):
        owned = [c.owns(topic) for c in living]
        assert owned[0] | owned[1] == set(range(world.topics.counts[topic]))
        assert not owned[0] & owned[1]
    assert set(world.group.holders) == {topic_id("t"), topic_id("u")}
