"""The arithmetic of quotas at its limits. `test_against_kafka` compares it with Apache Kafka's own classes."""

from __future__ import annotations

import math

import pytest

from ottla.coordinator.metadata.client_quotas import MAX_CHANGED, ClientQuotas
from ottla.coordinator.quota import sensors
from ottla.coordinator.quota.client_quota_manager import ClientQuotaManager
from ottla.coordinator.quota.connection_rates import ConnectionRates
from ottla.coordinator.quota.mutation_quota import MutationQuotaManager
from ottla.coordinator.quota.precedence import Limits, Sharing, of_both, of_client_id, of_user
from ottla.coordinator.quota.sampled import MAX_THROTTLE_MS, Sampled, Windows, rounded, throttle_ms
from ottla.coordinator.quota.token_bucket import TokenBucket
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData

WINDOWS = Windows(count=11, size_ms=1_000)
NOW_MS = 1_700_000_000_000


def test_quota_rate_counts_missing_samples_as_empty() -> None:
    sampled = Sampled(WINDOWS)
    sampled.record(100, NOW_MS)
    assert sampled.rate(NOW_MS) == 10
    assert sampled.rate(NOW_MS + 500) == 100 / 10.5
    sampled.record(100, NOW_MS + 5_000)
    assert sampled.rate(NOW_MS + 5_000) == 20
    # The oldest sample is dropped when its last event is as old as the window.
    assert sampled.rate(NOW_MS + 10_999) == 200 / 10.999
    assert sampled.rate(NOW_MS + 11_000) == 100 / 10.0
    assert sampled.rate(NOW_MS + 60_000) == 0


def test_mean_quota_rate_without_samples_is_nan() -> None:
    sampled = Sampled(WINDOWS)
    assert math.isnan(sampled.mean(NOW_MS))
    sampled.record(1, NOW_MS)
    sampled.record(4, NOW_MS)
    assert sampled.mean(NOW_MS) == 2.5


@pytest.mark.parametrize("jump_ms", [-1, -999, -5_000, -(10**12), 10**12])
def test_quota_throttle_times_stay_valid_when_the_clock_jumps(jump_ms: int) -> None:
    sampled, bucket = Sampled(WINDOWS), TokenBucket(WINDOWS)
    sampled.record(1_000, NOW_MS)
    bucket.take(100, 1, NOW_MS)
    sampled.record(1_000, NOW_MS + jump_ms)
    assert 0 <= throttle_ms(sampled, 1, NOW_MS + jump_ms) <= MAX_THROTTLE_MS
    assert 0 <= (bucket.throttle_ms(1, NOW_MS + jump_ms) or 0) <= MAX_THROTTLE_MS


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(0.49999999999999994, 0), (0.5, 1), (1.5, 2), (-0.5, 0), (-0.6, -1), (1e300, MAX_THROTTLE_MS), (math.inf, MAX_THROTTLE_MS)],
)
def test_quota_throttle_times_are_rounded_as_by_java(ms: float, expected: int) -> None:
    assert rounded(ms) == expected


@pytest.mark.parametrize(("bound", "expected"), [(math.nan, 0), (math.inf, 0), (0.0, MAX_THROTTLE_MS), (1e-300, MAX_THROTTLE_MS)])
def test_extreme_quotas_stored_by_apache_kafka_are_applied(bound: float, expected: int) -> None:
    sampled, bucket = Sampled(WINDOWS), TokenBucket(WINDOWS)
    sampled.record(1, NOW_MS)
    assert throttle_ms(sampled, bound, NOW_MS) == expected
    bucket.take(1, bound, NOW_MS)
    assert (bucket.throttle_ms(bound, NOW_MS) or 0) == expected


def test_most_specific_quota_applies_and_is_shared_by_the_clients_it_matches() -> None:
    order = [
        (of_client_id(None), Sharing("", "c")),
        (of_client_id("c"), Sharing("", "c")),
        (of_user(None), Sharing("u", "")),
        (of_both(None, None), Sharing("u", "c")),
        (of_both(None, "c"), Sharing("u", "c")),
        (of_user("u"), Sharing("u", "")),
        (of_both("u", None), Sharing("u", "c")),
        (of_both("u", "c"), Sharing("u", "c")),
    ]
    limits = Limits({})
    for value, (entity, sharing) in enumerate(order):
        limits.set(entity, value)
        assert (limits.sharing("u", "c"), limits.limit(limits.sharing("u", "c"))) == (sharing, value)
    for value, (entity, sharing) in reversed(list(enumerate(order))):
        assert (limits.sharing("u", "c"), limits.limit(limits.sharing("u", "c"))) == (sharing, value)
        limits.set(entity, None)
    assert limits.limit(limits.sharing("u", "c")) is None


def test_users_and_clients_with_special_characters_have_their_own_quotas() -> None:
    names = ["<default>", "a:b", "a", ":", "ü*%3A", " "]
    manager = ClientQuotaManager(Limits({of_both(name, name): float(at + 1) for at, name in enumerate(names)}), WINDOWS)
    for at, name in enumerate(names):
        assert manager.record(name, name, 100.0, NOW_MS) == round((100 - 10 * (at + 1)) * 1_000 / (at + 1))
        assert manager.record(name, "another", 1e9, NOW_MS) == 0


def test_longest_idle_client_is_forgotten_when_quotas_track_too_many_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "MAX_SENSORS", 3)
    manager = ClientQuotaManager(Limits({of_client_id(None): 1.0}), WINDOWS)
    for name in ("a", "b", "a", "c", "d"):
        manager.record("u", name, 100, NOW_MS)
    assert [sharing.client_id for sharing, _ in manager.sensors.current(NOW_MS)] == ["a", "c", "d"]


def test_quotas_shorten_long_client_ids_but_keep_them_distinct() -> None:
    first, second = "i" * 32_766 + "a", "i" * 32_766 + "b"
    limits = Limits({of_client_id(None): 1.0, of_client_id(first): 5.0, of_client_id("i" * 255): 9.0})
    manager = ClientQuotaManager(limits, WINDOWS)
    assert manager.record("u", first, 100, NOW_MS) == 10_000
    # Clients whose ids begin alike share neither a quota nor its usage.
    assert manager.record("u", second, 100, NOW_MS) == 90_000
    assert manager.record("u", "i" * 255, 100, NOW_MS) == 1_111
    assert [len(sharing.client_id) for sharing, _ in manager.sensors.current(NOW_MS)] == [255, 255, 255]
    limits.set(of_client_id(first), None)
    assert manager.record("u", first, 0, NOW_MS) == 90_000


@pytest.mark.parametrize("name", ["\U0001f600" * 8_000, "\ud800" * 8_000], ids=["four bytes", "surrogates"])
def test_quotas_shorten_long_user_names(name: str) -> None:
    limits = Limits({of_both(None, None): 1.0, of_both(name, name): 5.0})
    user, client_id = limits.sharing(name, name)
    assert len(user) == len(client_id) == 255
    assert limits.limit(limits.sharing(name, name)) == 5.0


def test_quotas_forget_idle_clients_after_an_hour() -> None:
    manager = ClientQuotaManager(Limits({of_client_id(None): 1.0}), WINDOWS)
    manager.record("u", "a", 1, NOW_MS)
    manager.record("u", "b", 1, NOW_MS + 1)
    assert len(list(manager.sensors.current(NOW_MS + 3_600_000))) == 2
    assert [sharing.client_id for sharing, _ in manager.sensors.current(NOW_MS + 3_600_001)] == ["b"]


def test_infinite_quota_never_throttles() -> None:
    manager = MutationQuotaManager(Limits({of_user("u"): math.inf}), WINDOWS)
    for _ in range(3):
        quota = manager.quota_for("u", "c", NOW_MS, is_strict=True)
        assert quota is not None
        quota.record(10_000, NOW_MS)
        assert quota.throttle_ms(NOW_MS) == 0
    assert ClientQuotaManager(Limits({of_user("u"): math.inf}), WINDOWS).record("u", "c", 1e9, NOW_MS) == 0


def test_strict_mutation_quota_is_exhausted_by_one_change_and_refills() -> None:
    manager = MutationQuotaManager(Limits({of_user("u"): 2.0}), WINDOWS)

    def change(count: int, now_ms: int) -> int:
        quota = manager.quota_for("u", "c", now_ms, is_strict=True)
        assert quota is not None
        try:
            quota.record(count, now_ms)
        except KafkaError:
            return quota.throttle_ms(now_ms)
        return 0

    assert change(122, NOW_MS) == 0
    assert change(1, NOW_MS) == 50_000
    assert change(1, NOW_MS + 49_999) == 1
    assert change(1, NOW_MS + 50_000) == 0
    # A token bucket holds at most the tokens of all samples of its window.
    assert change(22, NOW_MS + 10**9) == change(0, NOW_MS + 10**9) == 0


def test_ip_quota_applies_to_every_notation_of_the_address() -> None:
    rates = ConnectionRates(WINDOWS)
    for name in ("localhost", "::ffff:192.0.2.7", "2001:DB8::0001", "no.address"):
        rates.set(name, 1)
    for address in ("127.0.0.1", "192.0.2.7", "2001:db8::1"):
        assert [rates.record(address, "IN", NOW_MS) for _ in range(11)] == [0] * 10 + [1_000]
    assert rates.record("192.0.2.8", "IN", NOW_MS) == 0
    # Refused connections do not count towards the rate.
    assert rates.record("127.0.0.1", "IN", NOW_MS + 10_000) == 1_000
    assert rates.record("127.0.0.1", "IN", NOW_MS + 11_000) == 0


def test_client_quotas_list_each_changed_entity_once() -> None:
    quotas = ClientQuotas()

    def set_quota(name: str) -> None:
        entity = [EntityData(entity_type="user", entity_name=name)]
        quotas.replay(ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1.0, remove=False))

    set_quota("a")
    assert list(quotas.take_changed() or ()) == [of_user("a")]
    assert list(quotas.take_changed() or ()) == []
    for number in range(MAX_CHANGED + 1):
        set_quota(str(number))
    assert quotas.take_changed() is None
    set_quota("b")
    assert list(quotas.take_changed() or ()) == [of_user("b")]
