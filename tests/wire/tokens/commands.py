"""The commands of the transcript of delegation tokens, and their outcomes as text.

A line is ``NAME: COMMAND ARGUMENTS -> OUTCOME``. The connection of a name is opened at its first command: ``alice`` to ``eve`` and
``admin`` authenticate by PLAIN, ``nobody`` uses the plain listener, and ``login`` names a connection that authenticates by a token.
Times in outcomes are relative to the token's creation (``+``) or to now (``~``), because they differ in each run.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from typing import Any

from ottla.protocol.errors import Code
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.acl.codes import AclOperation, ResourceType
from ottla.simulation.client import Closed
from tests.security.sasl.conversations import ScramClient
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_until
from tests.wire.tokens.brokers import PASSWORDS, Addresses

PERIODS_MS = (0, 2_000, 10_000, 30_000, 60_000, 86_400_000)
"""The lifetimes in the transcript, in ms. A remaining time is shown as a lifetime if it is less by at most the test's duration."""
ALLOW, LITERAL, ANY = 3, 3, 1


class Story:
    """One test case: its connections and its delegation tokens."""

    def __init__(self, addresses: Addresses, passwords: Mapping[str, str] = PASSWORDS) -> None:
        self._began_ms = int(time.time() * 1_000)
        self._addresses, self._passwords = addresses, passwords
        self._connections: dict[str, RawClient] = {}
        self._tokens: dict[str, Any] = {}
        self._admin = self._connection("admin")

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def adopt(self, other: Story, token: str) -> None:
        """Add a token that another case has created at another broker, and wait until this broker knows the token."""
        self._tokens[token] = other._tokens[token]
        self._await(token)

    def run(self, line: str) -> str:
        name, _, rest = line.partition(": ")
        command, *words = rest.split()
        given = dict(word.split("=", 1) for word in words)
        act: Callable[..., str] = getattr(self, f"_{command}")
        try:
            return act(name.strip(), **given)
        except Closed:
            return "closed"

    def _connection(self, name: str) -> RawClient:
        known = self._connections.get(name)
        if known is None:
            known = self._connections[name] = RawClient(self._addresses.plain if name == "nobody" else self._addresses.secured)
            if name != "nobody":
                known.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                known.call(SaslAuthenticateRequest(auth_bytes=f"\0{name}\0{self._passwords[name]}".encode()), 2)
        return known

    def _create(self, name: str, token: str, owner: str = "", renewers: str = "", max: str = "-1", v: str = "3") -> str:
        kind, _, owner_name = owner.rpartition(":")
        answer = self._connection(name).call(
            CreateDelegationTokenRequest(
                owner_principal_type=kind or None,
                owner_principal_name=owner_name or None,
                renewers=[
                    CreatableRenewers(principal_type=renewer.partition(":")[0], principal_name=renewer.partition(":")[2])
                    for renewer in renewers.split(",")
                    if renewer
                ],
                max_lifetime_ms=int(max),
            ),
            int(v),
        )
        requester = f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}" if v == "3" else "-"
        said = f"{Code(answer.error_code).name} owner={answer.principal_type}:{answer.principal_name} requester={requester}"
        issued_ms = answer.issue_timestamp_ms
        if answer.error_code:
            return f"{said} times={issued_ms},{answer.expiry_timestamp_ms},{answer.max_timestamp_ms} id={answer.token_id!r}"
        self._tokens[token] = answer
        self._await(token)
        is_now = self._began_ms <= issued_ms <= time.time() * 1_000
        times = f"+{answer.expiry_timestamp_ms - issued_ms},+{answer.max_timestamp_ms - issued_ms}"
        sizes = f"id={len(answer.token_id)} hmac={len(answer.hmac)}"
        return f"{said} times={'now' if is_now else issued_ms},{times} {sizes}"

    def _renew(self, name: str, token: str, period: str = "-1", v: str = "2") -> str:
        request = RenewDelegationTokenRequest(hmac=self._hmac(token), renew_period_ms=int(period))
        return self._changed(token, self._connection(name).call(request, int(v)))

    def _expire(self, name: str, token: str, period: str = "-1", v: str = "2") -> str:
        request = ExpireDelegationTokenRequest(hmac=self._hmac(token), expiry_time_period_ms=int(period))
        return self._changed(token, self._connection(name).call(request, int(v)), is_removed=int(period) < 0)

    def _describe(self, name: str, owners: str = "all", v: str = "3") -> str:
        wanted = [
            DescribeDelegationTokenOwner(principal_type=owner.partition(":")[0], principal_name=owner.partition(":")[2])
            for owner in owners.split(",")
            if owner
        ]
        request = DescribeDelegationTokenRequest(owners=None if owners == "all" else wanted)
        answer = self._connection(name).call(request, int(v))
        return " ".join([Code(answer.error_code).name, *sorted(filter(None, map(self._described, answer.tokens)))])

    def _login(self, name: str, token: str, mechanism: str = "SCRAM-SHA-256", proof: str = "") -> str:
        """Authenticate by a token on a new connection. ``proof``: the token whose HMAC is the password, by default the same."""
        known = self._connections.pop(name, None)
        if known is not None:
            known.close()
        connection = self._connections[name] = RawClient(self._addresses.secured)
        connection.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        token_id = self._tokens[token].token_id if token in self._tokens else token
        password = base64.b64encode(self._hmac(proof or token)).decode()
        client = ScramClient(mechanism, token_id, password, extensions=",tokenauth=true")
        first = connection.call(SaslAuthenticateRequest(auth_bytes=client.first()), 2)
        last = first
        if not first.error_code:
            last = connection.call(SaslAuthenticateRequest(auth_bytes=client.final(bytes(first.auth_bytes))), 2)
        message = f" {last.error_message}" if last.error_message else ""
        session = self._near(last.session_lifetime_ms) if last.session_lifetime_ms else "0"
        return f"{Code(last.error_code).name} session={session}{message}"

    def _metadata(self, name: str) -> str:
        return f"answered={self._connection(name).call(MetadataRequest(topics=[]), 9).cluster_id is not None}"

    def _allow(self, name: str, principal: str, operation: str, resource: str, on: str) -> str:
        """Create an ACL, and wait until the broker has it."""
        acl = AclCreation(
            resource_type=ResourceType[resource],
            resource_name=self._tokens[on].token_id if on in self._tokens else on,
            resource_pattern_type=LITERAL,
            principal=principal,
            host="*",
            operation=AclOperation[operation],
            permission_type=ALLOW,
        )
        code = self._connection(name).call(CreateAclsRequest(creations=[acl])).results[0].error_code
        every = DescribeAclsRequest(
            resource_type_filter=acl.resource_type,
            resource_name_filter=acl.resource_name,
            pattern_type_filter=LITERAL,
            principal_filter=principal,
            host_filter=None,
            operation=acl.operation,
            permission_type=ANY,
        )
        wait_until(lambda: bool(self._admin.call(every).resources))
        return str(Code(code).name)

    def _gone(self, name: str, token: str) -> str:
        wait_until(lambda: self.found(token) is None)
        return "gone"

    def _hmac(self, token: str) -> bytes:
        return bytes(self._tokens[token].hmac) if token in self._tokens else token.encode()

    def found(self, token: str) -> Any:
        """Return the token as the broker describes it to the administrator, or None."""
        every = self._admin.call(DescribeDelegationTokenRequest(owners=None), 3).tokens
        return next((seen for seen in every if bytes(seen.hmac) == self._hmac(token)), None)

    def _await(self, token: str, expires_ms: int | None = None) -> None:
        """Wait until the broker knows the token and its new expiry, or has removed it after that time. Kafka's controller responds
        before its brokers know the change."""

        def is_known() -> bool:
            seen = self.found(token)
            if seen is None:
                return expires_ms is not None and expires_ms <= time.time() * 1_000
            return expires_ms in (None, seen.expiry_timestamp)

        wait_until(is_known)

    def _changed(self, token: str, answer: Any, *, is_removed: bool = False) -> str:
        code, expires_ms = Code(answer.error_code), answer.expiry_timestamp_ms
        if code == Code.NONE and is_removed:
            wait_until(lambda: self.found(token) is None)
        elif code == Code.NONE:
            self._await(token, expires_ms)
        return f"{code.name} expires={self._shown(token, expires_ms)}"

    def _shown(self, token: str, at_ms: int) -> str:
        if at_ms <= 0:
            return str(at_ms)
        if at_ms == self._tokens[token].max_timestamp_ms:
            return "max"
        return self._near(at_ms - int(time.time() * 1_000))

    def _near(self, left_ms: int) -> str:
        passed_ms = int(time.time() * 1_000) - self._began_ms
        return f"~{next((period_ms for period_ms in PERIODS_MS if period_ms - passed_ms <= left_ms <= period_ms), left_ms)}"

    def _described(self, seen: Any) -> str | None:
        """Describe a delegation token from a response; None for a token that another transcript has created."""
        token = next((name for name, made in self._tokens.items() if made.hmac == seen.hmac), None)
        if token is None:
            return None
        made, renewers = self._tokens[token], [f"{r.principal_type}:{r.principal_name}" for r in seen.renewers]
        assert (seen.token_id, seen.issue_timestamp, seen.max_timestamp) == (
            made.token_id,
            made.issue_timestamp_ms,
            made.max_timestamp_ms,
        )
        requester = f"{seen.token_requester_principal_type}:{seen.token_requester_principal_name}"
        who = f"{seen.principal_type}:{seen.principal_name} by {requester} for {','.join(renewers) or '-'}"
        return f"[{token} {who} {self._shown(token, seen.expiry_timestamp)}]"
