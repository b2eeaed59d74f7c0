"""Random histories of share groups: failed appends change no state, a reload restores the live state, and groups converge."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.errors import KafkaError
from tests.coordinator.group_world import GROUP
from tests.coordinator.heartbeats import share_heartbeat
from tests.coordinator.share_groups.world import ShareGroupWorld, Sharer
from tests.support.levels import seeds

STEPS = 150


class ShareHistoryWorld(ShareGroupWorld):
    def check(self) -> None:
        self.check_reloaded()


def step(world: ShareHistoryWorld, rng: random.Random, sharers: list[Sharer]) -> None:
    sharer, kind = rng.choice(sharers), rng.random()
    world.has_coordinator = rng.random() < 0.7
    if kind < 0.08:
        topic = rng.choice("tu")
        world.topics.counts[topic] = world.topics.counts.get(topic, 0) + rng.randrange(1, 3)
        world.shard.topic_changed(topic)
        return
    if kind < 0.14:
        world.tick(rng.choice([1_000, 31_000, 46_000]))
        return
    if kind < 0.17 and world.asked:
        world.run(world.shard.not_initialized(GROUP, world.asked[-1].partitions()))
        return
    leaves = kind < 0.25
    topics = rng.choice([["t"], ["t", "u"], ["u"]]) if sharer.epoch == 0 or rng.random() < 0.3 else None
    beat = share_heartbeat(GROUP, sharer.member_id, -1 if leaves else sharer.epoch, topic_names=topics)
    try:
        outcome = world.run_retried(lambda: world.shard.heartbeat(beat, world.now_ms))
    except KafkaError:
        sharer.epoch = 0
        return
    if rng.random() < 0.8:
        sharer.take(outcome.answer)
    if leaves:
        sharer.epoch = 0
    world.take(outcome.initialization)


@pytest.mark.smoke
@pytest.mark.parametrize("seed", seeds(4, in_check=1))
def test_random_share_group_histories_keep_the_invariants(seed: int) -> None:
    rng, world = random.Random(seed), ShareHistoryWorld()
    sharers = [Sharer(name) for name in "abcd"]
    for _ in range(STEPS):
        step(world, rng, sharers)
    world.tick(100_000)
    world.has_coordinator = True
    living = [Sharer("x"), Sharer("y")]
    for sharer in living:
        world.join(sharer, "t", "u")
    for sharer in living * 3:
        world.beat(sharer)
    for topic, count in world.topics.counts.items():
        assert living[0].reads(topic) | living[1].reads(topic) == set(range(count))
