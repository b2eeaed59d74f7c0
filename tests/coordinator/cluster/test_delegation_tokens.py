"""Delegation tokens as a state machine: lifetimes, permissions to change a token, removal of expired tokens, and replay."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ottla.coordinator.metadata import delegation_tokens
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.delegation_tokens import Lifetimes, StoredToken
from ottla.coordinator.result import Result
from ottla.protocol.errors import Code, DecodeError, KafkaError
from ottla.protocol.messages.delegation_token_record import DelegationTokenRecord
from ottla.security.principal import KafkaPrincipal

T = TypeVar("T")
ALICE, BOB, CAROL = (KafkaPrincipal("User", name) for name in ("alice", "bob", "carol"))
DAY_MS = 86_400_000
LIFETIMES = Lifetimes(max_ms=7 * DAY_MS, renew_ms=DAY_MS)
NOW_MS = 1_000_000
KEY = "key"


class World:
    """The state of a cluster, and the log that restores it."""

    def __init__(self, key: str | None = KEY) -> None:
        self.state = ClusterState(1)
        self.state.tokens.use_key(key)
        self.log: list[Any] = []

    def do(self, result: Result[T]) -> T:
        for record in result.records:
            self.state.replay(record, len(self.log))
            self.log.append(record)
        return result.response

    def create(
        self,
        token_id: str = "t",
        max_ms: int = -1,
        renewers: tuple[KafkaPrincipal, ...] = (),
        version: int = 33,
        owner: KafkaPrincipal = ALICE,
        requester: KafkaPrincipal = ALICE,
        now_ms: int = NOW_MS,
    ) -> StoredToken:
        made = self.state.tokens.create(
            token_id,
            owner,
            requester,
            renewers,
            now_ms=now_ms,
            max_lifetime_ms=max_ms,
            lifetimes=LIFETIMES,
            metadata_version=version,
        )
        return self.do(made)

    def hmac(self, token_id: str = "t") -> bytes:
        return self.state.tokens.hmac_of(token_id)

    def renew(self, by: KafkaPrincipal = ALICE, period_ms: int = -1, now_ms: int = NOW_MS) -> int:
        return self.do(self.state.tokens.renew(self.hmac(), by, period_ms, now_ms=now_ms, lifetimes=LIFETIMES))

    def expire(self, by: KafkaPrincipal = ALICE, period_ms: int = -1, now_ms: int = NOW_MS) -> int:
        return self.do(self.state.tokens.expire(self.hmac(), by, period_ms, now_ms=now_ms))


def refused(act: Callable[[], object]) -> Code:
    with pytest.raises(KafkaError) as caught:
        act()
    return caught.value.code


def test_delegation_token_hmac_is_computed_from_token_id_and_secret_key() -> None:
    world = World()
    world.create()
    assert world.hmac() == hmac.digest(KEY.encode(), b"t", hashlib.sha512)


def test_delegation_token_lifetime_is_the_shorter_of_request_and_setting() -> None:
    world = World()
    made = [world.create("a"), world.create("b", 5), world.create("c", 10**15)]
    assert [(t.expires_ms - NOW_MS, t.max_ms - NOW_MS) for t in made] == [(DAY_MS, 7 * DAY_MS), (5, 5), (DAY_MS, 7 * DAY_MS)]


def test_delegation_token_renewal_counts_from_now_and_ends_at_the_maximum_lifetime() -> None:
    world = World()
    made = world.create(max_ms=2 * DAY_MS)
    assert world.renew(period_ms=7) == NOW_MS + 7
    assert world.renew(now_ms=NOW_MS + 1) == NOW_MS + 1 + DAY_MS
    assert world.renew(now_ms=NOW_MS + DAY_MS + 1) == made.max_ms


def test_only_owner_and_renewers_may_renew_or_expire_a_delegation_token() -> None:
    world = World()
    world.create(renewers=(BOB,))
    assert refused(lambda: world.renew(CAROL)) == refused(lambda: world.expire(CAROL)) == Code.DELEGATION_TOKEN_OWNER_MISMATCH
    world.renew(BOB)
    assert world.expire(BOB) == NOW_MS
    assert not world.state.tokens.by_id
    assert refused(world.renew) == Code.DELEGATION_TOKEN_NOT_FOUND


def test_expired_delegation_token_cannot_be_renewed_and_is_removed() -> None:
    world = World()
    for number in range(3):
        world.create(str(number), max_ms=10 + number)
    world.create()
    tokens = world.state.tokens
    assert world.do(tokens.sweep(NOW_MS + 10)) == []
    world.expire(period_ms=10)
    assert refused(lambda: world.renew(now_ms=NOW_MS + 11)) == Code.DELEGATION_TOKEN_EXPIRED
    assert sorted(world.do(tokens.sweep(NOW_MS + 12))) == ["0", "1", "t"]
    assert list(tokens.by_id) == ["2"]


def test_delegation_tokens_are_disabled_without_a_secret_key() -> None:
    for key in (None, ""):
        world = World(key)
        for act in (world.create, world.renew, world.expire):
            assert refused(act) == Code.DELEGATION_TOKEN_AUTH_DISABLED


def test_refused_delegation_token_requests_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    assert refused(lambda: world.create(version=13)) == Code.UNSUPPORTED_VERSION
    assert refused(lambda: world.create(renewers=(KafkaPrincipal("Group", "g"),))) == Code.INVALID_PRINCIPAL_TYPE
    assert refused(lambda: world.create(renewers=(BOB,) * 101)) == Code.POLICY_VIOLATION
    assert refused(lambda: world.create(renewers=(KafkaPrincipal("User", "x" * 1_001),))) == Code.POLICY_VIOLATION
    assert refused(lambda: world.create(owner=KafkaPrincipal("x" * 1_001, "alice"))) == Code.POLICY_VIOLATION
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS_OF_REQUESTER", 0)
    assert refused(world.create) == Code.POLICY_VIOLATION
    assert world.log == []


def test_one_principal_cannot_use_up_the_limit_of_delegation_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS_OF_REQUESTER", 2)
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS", 4)
    world = World()
    world.create("a1", max_ms=1)
    world.create("a2")
    assert refused(lambda: world.create("a3")) == Code.POLICY_VIOLATION
    world.create("b1", requester=BOB)
    world.create("b2", requester=BOB)
    assert refused(lambda: world.create("c1", requester=CAROL)) == Code.POLICY_VIOLATION
    # An expired token does not count towards the limit, even before it is removed.
    world.create("c1", requester=CAROL, now_ms=NOW_MS + 2)
    assert list(world.state.tokens.by_id) == ["a2", "b1", "b2", "c1"]


def test_delegation_tokens_are_restored_from_log_and_snapshot() -> None:
    world = World()
    world.create("a", renewers=(BOB, CAROL))
    world.create()
    world.renew(period_ms=9)
    world.create("gone")
    world.do(world.state.tokens.expire(world.hmac("gone"), ALICE, -1, now_ms=NOW_MS))
    for records in (world.log, world.state.snapshot()):
        again = World()
        for offset, record in enumerate(records):
            again.state.replay(record, offset)
        assert again.state.tokens.by_id == world.state.tokens.by_id
        assert again.renew() == NOW_MS + DAY_MS


def test_delegation_token_record_with_a_malformed_principal_is_refused() -> None:
    with pytest.raises(DecodeError, match="delegation token t: expected a string in format"):
        World().state.tokens.replay(DelegationTokenRecord(owner="alice", requester="User:alice", token_id="t"))
