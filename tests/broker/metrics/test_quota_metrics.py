"""The metrics of clients with quotas equal those of Apache Kafka's own classes, to the bit, for random sequences of requests."""

from __future__ import annotations

import math
import random
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote

import pytest

from ottla.broker.config.settings import BrokerConfig
from ottla.broker.limits.quota_managers import CONNECTIONS, FETCH, MUTATION, PERCENT_PER_MS, PRODUCE, REQUEST, QuotaManagers
from ottla.broker.metrics.quota_metrics import quota_metrics
from ottla.protocol.errors import KafkaError
from tests.coordinator.quota.kafkas_quotas import kafkas_results

pytestmark = [pytest.mark.full, pytest.mark.java]

COUNT = 150
"""Number of random sequences of each kind."""
KEYS = {"produce": PRODUCE, "fetch": FETCH, "request": REQUEST, "mutation": MUTATION, "connections": CONNECTIONS}
LIMITS = {
    "produce": (1, 100, 12_345.678, 1_000_000),
    "fetch": (1, 100, 12_345.678, 1_000_000),
    "request": (0.5, 1, 100),
    "mutation": (0.5, 1, 3, 100),
    "connections": (1, 2, 5, 100),
}
USERS = ("alice", "bob", "a b:<ü>*")
CLIENT_IDS = ("app", "", "a:b c")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "2001:db8::1")
DEFAULT = ""
LABELS = {"user": unquote, "ip": lambda text: str(ip_address(text))}
"""How to turn Kafka's value of a tag into that of the label."""
Step = list[Any]
Measured = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""Values by the name and the labels of the metric."""


class SetClock:
    """A clock that the steps set."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def steady_ms(self) -> int:
        return self.ms


def made_up(rng: random.Random, kind: str) -> dict[str, Any]:
    now_ms = 1_700_000_000_000 + rng.randrange(10_000)
    steps: list[Step] = []
    for _ in range(rng.randrange(10, 60)):
        now_ms += rng.choice((0, 0, 1, 7, 250, 999, 1_000, 1_001, 5_000, 11_000, rng.randrange(40_000)))
        chosen = rng.random()
        if chosen < 0.2 or not steps:
            steps.append(["set", now_ms, *_entity(rng, kind), rng.choice((None, *LIMITS[kind], *LIMITS[kind]))])
        elif chosen < 0.4:
            steps.append(["metrics", now_ms])
        else:
            steps.append(_request(rng, kind, now_ms))
    steps.append(["metrics", now_ms + 1])
    return {"kind": kind, "samples": rng.choice((11, 2, 5)), "window_s": rng.choice((1, 3)), "steps": steps, "throttles": True}


def _entity(rng: random.Random, kind: str) -> list[str | None]:
    if kind == "connections":
        return [rng.choice((DEFAULT, *ADDRESSES)), None]
    types = rng.choice(((1, 0), (0, 1), (1, 1)))
    names = [rng.choice((DEFAULT, *(name for name in names if name))) for names in (USERS, CLIENT_IDS)]
    return [name if given else None for name, given in zip(names, types, strict=True)]


def _request(rng: random.Random, kind: str, now_ms: int) -> Step:
    client = [now_ms, rng.choice(USERS), rng.choice(CLIENT_IDS)]
    if kind == "connections":
        return ["connect", now_ms, rng.choice(ADDRESSES)]
    if kind == "mutation":
        return ["mutate", *client, rng.choice((1, 2, 50, 1_000)), rng.random() < 0.5]
    if kind == "request":
        return ["record", *client, rng.choice((0, 0.123, 7.5, 800, rng.random() * 100)) * PERCENT_PER_MS]
    return ["record", *client, rng.choice((0, 1, 50, 12_345, rng.randrange(1_000_000)))]


def results(question: dict[str, Any]) -> list[Any]:
    """Return ottla's results: the throttle time of each request, and the metrics."""
    clock, kind = SetClock(), question["kind"]
    windows = {"num": question["samples"], "size.seconds": question["window_s"]}
    settings = {f"{of}quota.window.{name}": str(value) for of in ("", "controller.") for name, value in windows.items()}
    managers = QuotaManagers(clock, BrokerConfig(settings).settings)  # type: ignore[arg-type]
    limits: dict[Any, dict[str, float]] = {}
    found: list[Any] = []
    for verb, now_ms, *arguments in question["steps"]:
        clock.ms = now_ms
        if verb == "metrics":
            found.append(_measured(managers, now_ms))
        elif verb == "set":
            *names, limit = arguments
            types = ("ip", "-") if kind == "connections" else ("user", "client-id")
            named = [(kind, name or None) for kind, name in zip(types, names, strict=True) if name is not None]
            limits[tuple(sorted(named))] = {} if limit is None else {KEYS[kind]: limit}
            managers.set_limits(limits)
            found.append(None)
        else:
            found.append(_requested(managers, kind, now_ms, *arguments))
    return found


def _measured(managers: QuotaManagers, now_ms: int) -> Measured:
    samples = (sample for metric in quota_metrics(managers, now_ms) for sample in metric.samples)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value for sample in samples if _is_shown(sample.name, sample.value)
    }


def _is_shown(name: str, value: float) -> bool:
    """Kafka has this metric also for listeners that have refused no connection."""
    return not (name.endswith("ip_connection_accept_throttle_time") and math.isnan(value))


def _requested(managers: QuotaManagers, kind: str, now_ms: int, user: str, client_id: str = "", *of_kind: Any) -> Any:
    if kind == "connections":
        return managers.connections.record(user, "PLAINTEXT", now_ms)
    if kind == "produce":
        return managers.produced(user, client_id, of_kind[0], None)
    if kind == "fetch":
        return managers.fetched(user, client_id, of_kind[0], 0.0)
    if kind == "request":
        return managers.handled(user, client_id, of_kind[0] / PERCENT_PER_MS, 0)
    quota = managers.mutation_quota(user, client_id, is_strict=of_kind[1])
    if quota is None:
        return [False, 0]
    is_refused = False
    try:
        quota.record(of_kind[0])
    except KafkaError:
        is_refused = True
    managers.handled(user, client_id, 0.0, quota.throttle_ms)
    return [is_refused, quota.throttle_ms]


def _of_kafka(result: Any) -> Any:
    """Return a result of Kafka, with the metrics under the names that ottla exports.

    Kafka's tags have user names percent-encoded, and addresses as Java writes them.
    """
    if not isinstance(result, list) or not all(isinstance(each, list) for each in result):
        return result
    measured: Measured = {}
    for group, name, tags, value in result:
        labels = frozenset((tag.replace("-", "_"), LABELS.get(tag, str)(text)) for tag, text in tags.items())
        exported = f"kafka_server_{group}_{name}".replace("-", "_").lower()
        if _is_shown(exported, float(value)):
            measured[exported, labels] = float(value)
    return measured


def _is_equal(ours: Any, kafkas: Any) -> bool:
    if not isinstance(ours, dict):
        return bool(ours == kafkas)
    return ours.keys() == kafkas.keys() and all(
        value == kafkas[name] or (math.isnan(value) and math.isnan(kafkas[name])) for name, value in ours.items()
    )


@pytest.mark.parametrize("kind", KEYS)
def test_quota_metrics_of_random_request_sequences_equal_those_of_kafka(kind: str) -> None:
    rng = random.Random(sum(kind.encode()))
    questions = [made_up(rng, kind) for _ in range(COUNT)]
    shown = 0
    for question, kafkas in zip(questions, kafkas_results(questions), strict=True):
        for step, our, kafka in zip(question["steps"], results(question), map(_of_kafka, kafkas), strict=True):
            assert _is_equal(our, kafka), (step, our, kafka, question)
            shown += len(our) if isinstance(our, dict) else 0
    assert shown > COUNT
