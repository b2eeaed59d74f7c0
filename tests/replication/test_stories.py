"""Replication invariants hold in random histories over a network, and each planted fault is detected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.handlers.support import fetch_answers, produce_append
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.partitions import Partition
from ottla.broker.replication.fetcher import ReplicaFetcher
from ottla.coordinator.replication.in_sync import InSync
from ottla.coordinator.replication.leader import Leader
from ottla.storage import log_dir
from ottla.storage.following import UnexpectedOffset
from tests.replication.stories import Story

pytestmark = pytest.mark.full

SEEDS = 24
SEEDS_TO_CATCH = 100
STEPS = 100

REACHED = (
    "a follower killed",
    "a leader killed",
    "all killed at once",
    "answered NONE",
    "answered NOT_ENOUGH_REPLICAS",
    "answered NOT_LEADER_OR_FOLLOWER",
    "answered REQUEST_TIMED_OUT",
    "moved the leader",
    "truncated",
)
"""States that at least one history must reach, because otherwise the test would cover too little."""


def test_acknowledged_records_survive_and_replica_logs_converge_in_random_histories() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen.update(Story(seed).play(STEPS).seen)
    assert all(seen[name] for name in REACHED), seen


Plant = Callable[[pytest.MonkeyPatch], dict[str, Any]]


def answers_before_the_high_watermark(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    async def at_once(*_: object) -> None:
        """Replaces the wait for replicas: return at once."""

    patched.setattr(produce_append, "_wait_for_replicas", at_once)
    return {}


def never_detects_diverging_logs(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    patched.setattr(fetch_answers, "divergence", lambda last_epoch, fetch_offset, end: None)
    return {}


def commits_records_of_the_leader_alone(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    patched.setattr(Leader, "high_watermark", lambda self, log_end_offset, high_watermark, now_ms: log_end_offset)
    return {}


def commits_without_a_follower_that_is_being_removed(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    patched.setattr(InSync, "maximal", property(lambda in_sync: in_sync.proposed))
    return {}


def elects_out_of_sync(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"elects_out_of_sync": True}


def starts_with_the_log_end_as_high_watermark(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    opened = log_dir.open_log

    def open_log(*args: Any, **given: Any) -> Any:
        return opened(*args, **{**given, "high_watermark": None})

    patched.setattr(log_dir, "open_log", open_log)
    return {}


def acknowledges_after_losing_leadership(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    def forget(barrier: Barrier, log: Any) -> None:
        for _, then in barrier._uncommitted.pop(log, ()):
            then(True)

    def follow(partition: Partition, leader_id: int, leader_epoch: int) -> None:
        partition.barrier.forget(partition.log)
        followed(partition, leader_id, leader_epoch)

    followed = Partition.follow
    patched.setattr(Barrier, "forget", forget)
    patched.setattr(Partition, "follow", follow)
    patched.setattr(Leader, "answer_to", lambda self, acks, end_offset, high_watermark: 0)
    return {}


def accepts_writes_as_follower(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    def follow(partition: Partition, leader_id: int, leader_epoch: int) -> None:
        if partition._leader is None:
            followed(partition, leader_id, leader_epoch)

    followed = Partition.follow
    patched.setattr(Partition, "follow", follow)
    return {}


def fetches_again_before_the_sync(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    def init(fetcher: ReplicaFetcher, *given: Any) -> None:
        made(fetcher, *given)
        fetcher._barrier = Barrier(None)

    made = ReplicaFetcher.__init__
    patched.setattr(ReplicaFetcher, "__init__", init)
    return {}


PLANTS = (
    answers_before_the_high_watermark,
    never_detects_diverging_logs,
    commits_records_of_the_leader_alone,
    commits_without_a_follower_that_is_being_removed,
    elects_out_of_sync,
    starts_with_the_log_end_as_high_watermark,
    acknowledges_after_losing_leadership,
    accepts_writes_as_follower,
    fetches_again_before_the_sync,
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_fault_planted_in_replication_code_is_caught_by_random_histories(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    given = plant(monkeypatch)
    for seed in range(SEEDS_TO_CATCH):
        try:
            Story(seed, **given).play(STEPS)
        except (AssertionError, UnexpectedOffset):
            # The history raises `Anomaly`, an assert of a state change fails, or a follower detects an unexpected offset.
            return
    pytest.fail(f"{SEEDS_TO_CATCH} seeds do not detect the fault")
