"""The delay in which a new classic group waits for more members (group.initial.rebalance.delay.ms).

Each new member restarts the delay, up to the rebalance timeout of the first member
(GroupMetadataManager.tryCompleteInitialRebalanceElseSchedule).
"""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.requests import GroupConfig
from tests.coordinator.classic_world import ClassicGroupWorld, Client

DELAY_MS = 3_000
REBALANCE_MS = 10_000


@pytest.fixture
def world() -> ClassicGroupWorld:
    return ClassicGroupWorld(config=GroupConfig(initial_rebalance_delay_ms=DELAY_MS))


def joined(world: ClassicGroupWorld, **options: Any) -> list[Any]:
    return world.join(Client(), rebalance_ms=REBALANCE_MS, **options)


def test_join_group_response_waits_for_group_initial_rebalance_delay(world: ClassicGroupWorld) -> None:
    answers = joined(world)
    world.tick(DELAY_MS - 1)
    assert not answers
    world.tick(1)
    assert answers[0].generation == 1


def test_joining_member_restarts_the_initial_rebalance_delay(world: ClassicGroupWorld) -> None:
    answers = joined(world)
    world.tick(1_000)
    others = joined(world)
    world.tick(DELAY_MS - 1_000)
    assert not answers
    world.tick(DELAY_MS - 1)
    assert not answers
    world.tick(1)
    assert [answer.generation for answer in (*answers, *others)] == [1, 1]


def test_initial_rebalance_delay_ends_at_the_rebalance_timeout_of_the_first_member(world: ClassicGroupWorld) -> None:
    answers, begun_ms = joined(world), world.now_ms
    while not answers:
        world.tick(500)
        if not answers:
            joined(world)
    assert world.now_ms - begun_ms == REBALANCE_MS


def test_join_after_the_initial_rebalance_delay_but_before_its_timer_runs_restarts_the_delay(world: ClassicGroupWorld) -> None:
    answers = joined(world)
    world.now_ms += 1_000
    joined(world)
    world.now_ms += DELAY_MS
    joined(world)
    assert not answers
    world.tick()
    assert not answers
    world.tick(DELAY_MS)
    assert answers[0].generation == 1
    assert len(answers[0].members) == 3


def test_first_group_generation_begins_at_once_without_initial_rebalance_delay() -> None:
    world = ClassicGroupWorld()
    assert joined(world)[0].generation == 1


def test_second_join_group_with_a_generated_member_id_restarts_the_initial_rebalance_delay(world: ClassicGroupWorld) -> None:
    first, second = Client(), Client()
    handed = world.join(second, rebalance_ms=REBALANCE_MS, needs_known_id=True)
    answers = world.join(first, rebalance_ms=REBALANCE_MS)
    assert handed[0].member_id
    world.tick(1_000)
    world.join(second, rebalance_ms=REBALANCE_MS, needs_known_id=True)
    world.tick(DELAY_MS - 1_000)
    assert not answers
    world.tick(DELAY_MS)
    assert len(answers[0].members) == 2
