"""Replication invariants hold in random histories without brokers, and each planted fault is detected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla.coordinator.replication import follower, leader
from ottla.coordinator.replication.in_sync import InSync
from ottla.coordinator.replication.leader import Leader
from ottla.protocol.errors import Code
from ottla.storage import truncation
from ottla.storage.following import UnexpectedOffset
from ottla.storage.log import Log
from tests.replication.world import play

pytestmark = pytest.mark.full

SEEDS = 25
SEEDS_TO_CATCH = 150

REACHED = (
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "acknowledged",
    "alter FENCED_LEADER_EPOCH",
    "alter INVALID_UPDATE_VERSION",
    "alter NONE",
    "diverging",
    "elected",
    "kept",
    "lost",
    "shrunk",
    "too few in sync",
    "truncated",
)
"""States that at least one history must reach, because otherwise the test would cover too little."""


def test_committed_records_survive_and_replica_logs_converge_in_random_schedules() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen.update(play(seed).seen)
    assert all(seen[name] for name in REACHED), seen


Plant = Callable[[pytest.MonkeyPatch], dict[str, Any]]


def truncates_to_the_high_watermark(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    patched.setattr(follower, "truncation_offset", lambda diverging, own_end, log: log.high_watermark)
    return {}


def commits_without_a_follower_that_is_being_removed(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    patched.setattr(InSync, "maximal", property(lambda in_sync: in_sync.proposed))
    return {}


def answers_before_the_high_watermark(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    patched.setattr(Leader, "answer_to", lambda self, acks, end_offset, high_watermark: Code.NONE)
    return {}


def elects_out_of_sync(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"elects_out_of_sync": True}


def keeps_producer_state_across_a_truncation(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    patched.setattr(truncation, "reload_producers", lambda log, now_ms: None)
    return {}


def shows_transactions_of_an_uncommitted_marker(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    def unstable(log: Log) -> int:
        first = log.producers.first_unstable_offset
        return log.high_watermark if first is None else min(first, log.high_watermark)

    patched.setattr(Log, "last_stable_offset", property(unstable))
    return {}


def accepts_fetches_of_an_earlier_incarnation(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"names_lives": False}


def commits_records_of_the_leader_alone(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    patched.setattr(Leader, "high_watermark", lambda self, log_end_offset, high_watermark, now_ms: log_end_offset)
    return {}


def never_detects_diverging_logs(patched: pytest.MonkeyPatch) -> dict[str, Any]:
    patched.setattr(leader, "divergence", lambda last_epoch, fetch_offset, end: None)
    return {}


@pytest.mark.parametrize(
    "plant",
    [
        truncates_to_the_high_watermark,
        commits_without_a_follower_that_is_being_removed,
        answers_before_the_high_watermark,
        elects_out_of_sync,
        keeps_producer_state_across_a_truncation,
        shows_transactions_of_an_uncommitted_marker,
        accepts_fetches_of_an_earlier_incarnation,
        commits_records_of_the_leader_alone,
        never_detects_diverging_logs,
    ],
    ids=lambda plant: plant.__name__,
)
def test_fault_planted_in_replication_decisions_is_caught_by_random_schedules(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = plant(monkeypatch)
    for seed in range(SEEDS_TO_CATCH):
        try:
            play(seed, **given)
        except (AssertionError, UnexpectedOffset):
            # `ReplicaWorld` raises `Anomaly`, an assert of a state change fails, or a follower detects an unexpected offset.
            return
    pytest.fail(f"{SEEDS_TO_CATCH} seeds do not detect the fault")
