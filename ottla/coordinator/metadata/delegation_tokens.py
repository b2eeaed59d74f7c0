"""Delegation tokens (KIP-48): credentials that authenticated clients create for other processes (DelegationTokenControlManager).

The log has a token's id, its owner and its times. Its HMAC, with which a process authenticates by SCRAM, is computed from the id
and the secret key of the cluster (``delegation.token.secret.key``), which every node has in its settings.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any

import msgspec

from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, DecodeError, KafkaError
from ottla.security.principal import USER, KafkaPrincipal

MAX_TOKENS = 10_000
MAX_TOKENS_OF_REQUESTER = 1_000
"""Maximum number of tokens created by one principal, so that a single user cannot use up `MAX_TOKENS`."""
MAX_RENEWERS = 100
MAX_NAME_CHARACTERS = 1_000
"""Maximum number of characters in the name, and in the type, of an owner or renewer."""
OLDEST_METADATA_VERSION = 14
"""Level 3.6-IV2 of ``metadata.version``, from which delegation tokens are in the log (isDelegationTokenSupported)."""
SWEPT_AT_ONCE = 1_000
"""Maximum number of expired tokens that one call of `DelegationTokens.sweep` removes."""


class StoredToken(msgspec.Struct, frozen=True, kw_only=True):
    """One token (TokenInformation). Times are in ms since 1970."""

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """The time beyond which the token cannot be renewed."""

    def may_be_changed_by(self, principal: KafkaPrincipal) -> bool:
        """Whether a principal may renew and expire the token: its owner and its renewers, but not its requester."""
        return principal == self.owner or principal in self.renewers

    @property
    def visible_to(self) -> tuple[KafkaPrincipal, ...]:
        """The principals that see the token without an ACL (TokenInformation.ownerOrRenewer)."""
        return (self.owner, self.requester, *self.renewers)

    def has_expired(self, now_ms: int) -> bool:
        return min(self.expires_ms, self.max_ms) < now_ms


class Lifetimes(msgspec.Struct, frozen=True, kw_only=True):
    """The broker's limits, in ms: ``delegation.token.max.lifetime.ms`` and ``delegation.token.expiry.time.ms``."""

    max_ms: int
    renew_ms: int


class DelegationTokens:
    """All tokens of the cluster. Commands raise `KafkaError`, after which nothing has changed."""

    __slots__ = ("_ids", "_secret_key", "by_id")

    def __init__(self) -> None:
        self.by_id: dict[str, StoredToken] = {}
        self._secret_key = b""
        # Token ids by HMAC.
        self._ids: dict[bytes, str] = {}

    def use_key(self, secret_key: str | None) -> None:
        """Set the cluster's secret key. Must be called before the log is replayed. Without a key, tokens are disabled."""
        self._secret_key = (secret_key or "").encode()

    @property
    def is_enabled(self) -> bool:
        return bool(self._secret_key)

    def hmac_of(self, token_id: str) -> bytes:
        return hmac.digest(self._secret_key, token_id.encode(), "sha512")

    # deciding changes of tokens

    def create(
        self,
        token_id: str,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: Sequence[KafkaPrincipal],
        *,
        now_ms: int,
        max_lifetime_ms: int,
        lifetimes: Lifetimes,
        metadata_version: int,
    ) -> Result[StoredToken]:
        """Create a token, and remove expired tokens if there are too many.

        Raises DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION, INVALID_PRINCIPAL_TYPE, and POLICY_VIOLATION for too many tokens
        or renewers.
        """
        self._check_enabled()
        if metadata_version < OLDEST_METADATA_VERSION:
            raise KafkaError(Code.UNSUPPORTED_VERSION)
        if any(renewer.type != USER for renewer in renewers):
            raise KafkaError(Code.INVALID_PRINCIPAL_TYPE)
        if len(renewers) > MAX_RENEWERS:
            raise KafkaError(Code.POLICY_VIOLATION, f"at most {MAX_RENEWERS} renewers of a token are allowed")
        removed = self._made_room(requester, now_ms)
        if any(max(len(principal.type), len(principal.name)) > MAX_NAME_CHARACTERS for principal in (owner, *renewers)):
            raise KafkaError(
                Code.POLICY_VIOLATION, f"the type and the name of a principal have at most {MAX_NAME_CHARACTERS} characters"
            )
        max_ms = now_ms + (min(lifetimes.max_ms, max_lifetime_ms) if max_lifetime_ms > 0 else lifetimes.max_ms)
        token = StoredToken(
            token_id=token_id,
            owner=owner,
            requester=requester,
            renewers=tuple(renewers),
            issued_ms=now_ms,
            expires_ms=min(max_ms, now_ms + lifetimes.renew_ms),
            max_ms=max_ms,
        )
        return Result(token, [*removed, _record(token)])

    def _made_room(self, requester: KafkaPrincipal, now_ms: int) -> list[LogRecord]:
        if len(self.by_id) < MAX_TOKENS_OF_REQUESTER:
            return []
        expired = self.sweep(now_ms)
        left = len(self.by_id) - len(expired.response)
        of_requester = sum(token.requester == requester and not token.has_expired(now_ms) for token in self.by_id.values())
        if left >= MAX_TOKENS or of_requester >= MAX_TOKENS_OF_REQUESTER:
            raise KafkaError(
                Code.POLICY_VIOLATION,
                f"at most {MAX_TOKENS} tokens are allowed, at most {MAX_TOKENS_OF_REQUESTER} of them created by one principal",
            )
        return expired.records

    def renew(
        self, hmac_bytes: bytes, requester: KafkaPrincipal, period_ms: int, *, now_ms: int, lifetimes: Lifetimes
    ) -> Result[int]:
        """Renew a token; returns when it expires. Raises `KafkaError` if the token is unknown, has expired or may not be
        changed."""
        token = self._token(hmac_bytes, requester, now_ms)
        renew_ms = min(lifetimes.renew_ms, period_ms) if period_ms > 0 else lifetimes.renew_ms
        return self._expire_at(token, now_ms + renew_ms)

    def expire(self, hmac_bytes: bytes, requester: KafkaPrincipal, period_ms: int, *, now_ms: int) -> Result[int]:
        """Expire a token after ``period_ms``, or remove it at once if the period is negative; returns when it expires.

        Raises `KafkaError` as `renew` does.
        """
        token = self._token(hmac_bytes, requester, now_ms)
        if period_ms < 0:
            return Result(now_ms, [_removal(token)])
        return self._expire_at(token, now_ms + period_ms)

    def _expire_at(self, token: StoredToken, expires_ms: int) -> Result[int]:
        changed = msgspec.structs.replace(token, expires_ms=min(token.max_ms, expires_ms))
        return Result(changed.expires_ms, [_record(changed)])

    def sweep(self, now_ms: int) -> Result[list[str]]:
        """Remove at most `SWEPT_AT_ONCE` expired tokens; returns their ids."""
        expired = [token for token in self.by_id.values() if token.has_expired(now_ms)][:SWEPT_AT_ONCE]
        return Result([token.token_id for token in expired], [_removal(token) for token in expired])

    def _check_enabled(self) -> None:
        if not self.is_enabled:
            raise KafkaError(Code.DELEGATION_TOKEN_AUTH_DISABLED)

    def _token(self, hmac_bytes: bytes, requester: KafkaPrincipal, now_ms: int) -> StoredToken:
        """Return the token with an HMAC, if the requester may change it.

        Raises DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED or
        DELEGATION_TOKEN_OWNER_MISMATCH.
        """
        self._check_enabled()
        if hmac_bytes not in self._ids:
            raise KafkaError(Code.DELEGATION_TOKEN_NOT_FOUND)
        token = self.by_id[self._ids[hmac_bytes]]
        if token.has_expired(now_ms):
            raise KafkaError(Code.DELEGATION_TOKEN_EXPIRED)
        if not token.may_be_changed_by(requester):
            raise KafkaError(Code.DELEGATION_TOKEN_OWNER_MISMATCH)
        return token

    # replaying and writing token records

    def replay(self, message: Any) -> None:
        """Apply a DelegationTokenRecord. Raises `DecodeError`."""
        try:
            owner, requester, *renewers = map(KafkaPrincipal.parse, (message.owner, message.requester, *message.renewers))
        except ValueError as error:
            raise DecodeError(f"delegation token {message.token_id}: {error}") from None
        token = StoredToken(
            token_id=message.token_id,
            owner=owner,
            requester=requester,
            renewers=tuple(renewers),
            issued_ms=message.issue_timestamp,
            expires_ms=message.expiration_timestamp,
            max_ms=message.max_timestamp,
        )
        self.by_id[token.token_id] = token
        if self.is_enabled:
            self._ids[self.hmac_of(token.token_id)] = token.token_id

    def replay_removal(self, message: Any) -> None:
        if self.by_id.pop(message.token_id, None) is not None and self.is_enabled:
            del self._ids[self.hmac_of(message.token_id)]

    def snapshot(self) -> list[LogRecord]:
        """Return records that restore all tokens."""
        return [_record(token) for token in self.by_id.values()]


def _record(token: StoredToken) -> LogRecord:
    # The record modules are imported here and below, because most clusters have no tokens.
    from ottla.protocol.messages import delegation_token_record

    message = delegation_token_record.DelegationTokenRecord(
        owner=str(token.owner),
        requester=str(token.requester),
        renewers=[str(renewer) for renewer in token.renewers],
        issue_timestamp=token.issued_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expires_ms,
        token_id=token.token_id,
    )
    return metadata_record(delegation_token_record, message)


def _removal(token: StoredToken) -> LogRecord:
    from ottla.protocol.messages import remove_delegation_token_record

    message = remove_delegation_token_record.RemoveDelegationTokenRecord(token_id=token.token_id)
    return metadata_record(remove_delegation_token_record, message)
