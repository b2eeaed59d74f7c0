"""Throttle times, token buckets and the precedence of quotas equal those of Apache Kafka's own classes for random sequences of
requests."""

from __future__ import annotations

import random
import sys
from typing import Any
from urllib.parse import quote

import pytest

from ottla.coordinator.quota.client_quota_manager import ClientQuotaManager
from ottla.coordinator.quota.mutation_quota import MutationQuotaManager
from ottla.coordinator.quota.precedence import Limits, Sharing
from ottla.coordinator.quota.sampled import MAX_THROTTLE_MS, Windows
from ottla.protocol.errors import KafkaError
from tests.coordinator.quota.kafkas_quotas import kafkas_results

pytestmark = [pytest.mark.full, pytest.mark.java]

SEEDS = {"short": (1, 200), "long": (2, 2_000)}
"""Seed and number of random sequences, for the short and the long form of each test."""
KINDS = ("produce", "request", "mutation")
USERS = ("alice", "bob", "a b:<ü>*", "<default>")
CLIENT_IDS = ("app", "x", "", "<default>", "a:b c")
DEFAULT = ""
"""Name of the default quota of an entity type; names of entities cannot be empty."""


@pytest.mark.parametrize("form", SEEDS)
def test_random_request_sequences_get_the_throttle_times_of_kafka(form: str) -> None:
    seed, count = SEEDS[form]
    rng = random.Random(seed)
    questions = [made_up(rng) for _ in range(count)]
    for question, kafkas in zip(questions, kafkas_results(questions), strict=True):
        ours = results(question)
        differing = [
            (step, our, kafka)
            for step, our, kafka in zip(question["steps"], ours, kafkas, strict=True)
            # ottla limits a throttle time to MAX_THROTTLE_MS; Kafka's arithmetic overflows at longer times.
            if our != kafka and our not in (MAX_THROTTLE_MS, [False, MAX_THROTTLE_MS], [True, MAX_THROTTLE_MS])
        ]
        assert differing == [], question


def made_up(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(KINDS)
    now_ms = 1_700_000_000_000 + rng.randrange(10_000)
    limits = [0.000001, 0.5, 1, 3, 100, 1_000.5, 2**40] if kind == "mutation" else [0.5, 1, 100, 12_345.678, 1_000_000]
    # With a clock that goes backwards, Kafka also throttles clients that have no controller mutation quota.
    backwards = () if kind == "mutation" else (-3, -2_500)
    steps: list[list[Any]] = []
    for _ in range(rng.randrange(5, 80)):
        now_ms += rng.choice((0, 0, 1, 7, 250, 999, 1_000, 1_001, 5_000, 11_000, *backwards, rng.randrange(20_000)))
        chosen = rng.random()
        user, client_id = rng.choice(USERS), rng.choice(CLIENT_IDS)
        if chosen < 0.2 or not steps:
            types = rng.choice(((1, 0), (0, 1), (1, 1)))
            names = [rng.choice((DEFAULT, *(name for name in names if name))) for names in (USERS, CLIENT_IDS)]
            entity = [name if given else None for name, given in zip(names, types, strict=True)]
            steps.append(["set", now_ms, *entity, rng.choice((None, *limits))])
        elif kind == "mutation":
            steps.append(["mutate", now_ms, user, client_id, rng.choice((1, 2, 50, 1_000)), rng.random() < 0.5])
        elif chosen < 0.8:
            value = rng.choice((0, 1, 50.25, 999, 12_345, rng.random() * 1e6, rng.randrange(10_000)))
            steps.append(["record", now_ms, user, client_id, value])
        elif chosen < 0.9:
            steps.append(["unrecord", now_ms, user, client_id, rng.choice((1, 999))])
        else:
            steps.append([rng.choice(("most", "sharing")), now_ms, user, client_id])
    return {"kind": kind, "samples": rng.choice((11, 11, 2, 5)), "window_s": rng.choice((1, 1, 3)), "steps": steps}


def results(question: dict[str, Any]) -> list[Any]:
    """Return the results of ottla's quota managers, one per step."""
    windows = Windows(count=question["samples"], size_ms=question["window_s"] * 1_000)
    limits: dict[Any, float] = {}
    manager: Any
    if question["kind"] == "mutation":
        manager = MutationQuotaManager(Limits({}), windows)
    else:
        manager = ClientQuotaManager(Limits({}), windows, windows.size_ms if question["kind"] == "request" else None)
    return [result(manager, limits, *step) for step in question["steps"]]


def result(manager: Any, limits: dict[Any, float], verb: str, now_ms: int, user: Any, client_id: Any, *more: Any) -> Any:
    if verb == "set":
        names = (("client-id", client_id), ("user", user))
        entity = tuple((kind, name or None) for kind, name in names if name is not None)
        limits.pop(entity, None) if more[0] is None else limits.update({entity: more[0]})
        manager.limits = Limits(limits)
    elif verb == "mutate":
        quota = manager.quota_for(user, client_id, now_ms, is_strict=more[1])
        if quota is None:
            return [False, 0]
        try:
            quota.record(more[0], now_ms)
        except KafkaError:
            return [True, quota.throttle_ms(now_ms)]
        return [False, quota.throttle_ms(now_ms)]
    elif verb == "record":
        return manager.record(user, client_id, more[0], now_ms) if limits else 0
    elif verb == "unrecord":
        manager.unrecord(user, client_id, more[0], now_ms)
    elif verb == "most":
        most = manager.most_in_window(user, client_id)
        return sys.float_info.max if most is None else most
    else:
        sharing: Sharing = manager.limits.sharing(user, client_id)
        # Kafka's result has the user name percent-encoded, as in its metric names.
        return [quote(sharing.user, safe=""), sharing.client_id]
    return None
