"""How the clients of one listener with TLS or SASL connect and authenticate."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Protocol

import structlog

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.security import SaslSettings, sasl_settings
from ottla.broker.config.security_protocols import SecurityProtocol
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.loop.env import Env
from ottla.broker.network import connection as connections
from ottla.broker.network.connection import Connection
from ottla.broker.network.dispatch import AuthenticatingClient, Dispatcher, Dispatching
from ottla.broker.network.key_sets import KeySource
from ottla.broker.network.reloading import ReloadedTls
from ottla.broker.network.sasl_dispatch import SaslDispatcher
from ottla.broker.network.tls import Handshakes, TlsHandshake, certificate_of
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.protocol.steps import Pause
from ottla.security.principal import ANONYMOUS, USER, KafkaPrincipal
from ottla.security.sasl.exchange import Mechanism
from ottla.security.sasl.oauthbearer import OAUTHBEARER, OAuthBearerMechanism, TokenValidator
from ottla.security.sasl.plain import PLAIN, PlainMechanism
from ottla.security.sasl.scram import NUMBERS, Credential, ScramMechanism, TokenCredential, token_credential
from ottla.security.sasl.server import SaslTerms
from ottla.security.sasl.signed_tokens import KeySetError, SignedTokens
from ottla.security.sasl.unsecured_tokens import OptionError, UnsecuredTokens
from ottla.security.tls.distinguished_name import MalformedCertificate, subject_of
from ottla.security.tls.principal_mapping import NoRuleMatches

MAX_TOKEN_CREDENTIALS = 1_000
"""Maximum number of delegation tokens whose credentials a listener keeps, because it takes milliseconds to compute them."""

log = structlog.get_logger("connection")


class Ports(connections.Ports[Any], Protocol):
    """The broker or controller whose listeners are secured."""

    env: Env

    directory_id: bytes

    @property
    def cluster_state(self) -> ClusterState: ...


class SecuredListener:
    """How the clients of one listener connect and authenticate (`dispatch.Secured`)."""

    def __init__(self, ports: Ports, config: BrokerConfig, name: str, protocol: SecurityProtocol, handshakes: Handshakes) -> None:
        self.ports, self.name = ports, name
        self._handshakes = handshakes
        self._secret = ports.env.random_uuid() + ports.env.random_uuid()
        self._terms: SaslTerms | None = None
        if protocol.has_sasl:
            sasl = sasl_settings(config, name)
            self.max_receive_bytes = sasl.max_receive_bytes
            mechanisms = {mechanism: self._mechanism(mechanism, sasl) for mechanism in sasl.modules}
            self._terms = SaslTerms(mechanisms=mechanisms, max_session_ms=sasl.max_session_ms)
        self._tls: ReloadedTls | None = None
        if protocol.has_tls:
            # Password that encrypts the private key; hexadecimal, because OpenSSL takes text.
            self._tls = ReloadedTls(config, name, protocol, self._secret.hex().encode(), ports.env.now_ms)
            ports.live_config.parts.append(self._tls)

    def _mechanism(self, name: str, sasl: SaslSettings) -> Mechanism:
        if name == PLAIN:
            return PlainMechanism(sasl.modules[name].users)
        if name == OAUTHBEARER:
            return OAuthBearerMechanism(self._tokens(sasl))
        return ScramMechanism(name, self._credential_of(NUMBERS[name]), self._salt_secret, self._token_of(name))

    def _salt_secret(self) -> bytes:
        """The secret for salts of unknown users: the id of the cluster's first log directory. Brokers know it from the metadata,
        also after a restart, and clients do not know it before they are authenticated."""
        brokers = self.ports.cluster_state.registrations.brokers
        first = min((node_id for node_id, broker in brokers.items() if broker.directories), default=None)
        return self.ports.directory_id if first is None else brokers[first].directories[0]

    def _tokens(self, sasl: SaslSettings) -> TokenValidator:
        try:
            if sasl.key_set is None:
                log.warning(
                    "unsecured_tokens_accepted",
                    listener=self.name,
                    hint="every client can create unsecured tokens; use them only in tests",
                )
                return UnsecuredTokens(sasl.modules[OAUTHBEARER].options)
            keys = sasl.key_set
            times = keys.refresh_ms, keys.retry_ms, keys.max_retry_ms
            source = KeySource(self.ports.env, self.ports.lifecycle, keys.url, *times)
            return SignedTokens(keys.terms, source.current, source.missed)
        except (OptionError, KeySetError) as error:
            raise ConfigError(f"sasl.enabled.mechanisms: {OAUTHBEARER}: {error}") from None

    def _credential_of(self, mechanism: int) -> Callable[[str], Credential | None]:
        return lambda user: self.ports.cluster_state.credentials.by_user.get(user, {}).get(mechanism)

    def _token_of(self, mechanism: str) -> Callable[[str], TokenCredential | None]:
        @lru_cache(MAX_TOKEN_CREDENTIALS)
        def credential(token_id: str) -> Credential:
            tokens = self.ports.cluster_state.tokens
            # The prefix makes this salt differ from that of an unknown user with the token's id as name, which any client can
            # request.
            salt = hmac.digest(self._secret, b"token " + token_id.encode(), "sha256")
            return token_credential(mechanism, tokens.hmac_of(token_id), salt)

        def token_of(token_id: str) -> TokenCredential | None:
            tokens = self.ports.cluster_state.tokens
            token = tokens.by_id.get(token_id)
            if token is None or not tokens.is_enabled:
                return None
            return TokenCredential(token.owner.name, token.expires_ms, credential(token_id))

        return token_of

    def connection(self) -> asyncio.BufferedProtocol:
        if self._tls is not None:
            return TlsHandshake(
                self._tls.context,
                self._handshakes,
                self._after_handshake,
                self._is_watched,
                self._is_failed_by_fault,
                partial(self.count, "failed_authentication"),
                partial(self.ports.connections.ended_in_handshake, self.name),
            )
        return Connection(self.ports, self.name, self)

    def count(self, outcome: str) -> None:
        """Count the outcome of a client's authentication (`Counters.authentications`)."""
        self.ports.counters.authentications[self.name, outcome] += 1

    def _is_watched(self) -> bool:
        return self.ports.interception is not None and bool(self.ports.interception.watched_handshakes)

    def _is_failed_by_fault(self, peer: str) -> bool:
        return self.ports.interception is not None and self.ports.interception.fails_handshake(self.name, peer)

    def _after_handshake(self, transport: asyncio.Transport) -> asyncio.BufferedProtocol | None:
        """The asyncio protocol of a connection after its handshake; None to refuse a client because of its certificate."""
        if self._terms is not None:
            return Connection(self.ports, self.name, self)
        assert self._tls is not None
        peer = str(transport.get_extra_info("peername")[0])
        try:
            certificate = certificate_of(transport)
            principal = ANONYMOUS
            if certificate is not None:
                principal = KafkaPrincipal(USER, self._tls.settings.principals.name_of(subject_of(certificate)))
        except (MalformedCertificate, NoRuleMatches) as error:
            self._handshakes.failed(peer, f"the client's certificate has no principal: {error}")
            self.count("failed_authentication")
            return None
        self.count("successful_authentication")
        self.count("successful_authentication_no_reauth")
        log.debug("client_authenticated", principal=str(principal), peer=peer, listener=self.name)
        return Connection(self.ports, self.name, Certified(self, principal))

    def dispatcher(self, connection: AuthenticatingClient, limit_frames: Callable[[int], None]) -> Dispatching:
        assert self._terms is not None, self.name
        return SaslDispatcher(self._terms, SaslClient(self, connection, limit_frames))


class Certified:
    """The client of one connection that TLS has authenticated (`dispatch.Secured`)."""

    __slots__ = ("_listener", "_principal")

    def __init__(self, listener: SecuredListener, principal: KafkaPrincipal) -> None:
        self._listener = listener
        self._principal = principal

    def dispatcher(self, connection: AuthenticatingClient, limit_frames: Callable[[int], None]) -> Dispatching:
        listener = self._listener
        return Dispatcher(listener.ports, listener.name, connection.as_client, self._principal)


class SaslClient:
    """The client of one SASL connection (`sasl_dispatch.SaslRequester`)."""

    __slots__ = ("_connection", "_limit", "_listener")

    def __init__(self, listener: SecuredListener, connection: AuthenticatingClient, limit: Callable[[int], None]) -> None:
        self._listener = listener
        self._connection = connection
        self._limit = limit

    @property
    def peer(self) -> str:
        return self._connection.peer

    def dispatcher(self, principal: KafkaPrincipal, *, is_by_token: bool = False) -> Dispatcher:
        client = self._connection.as_client._replace(is_by_token=is_by_token)
        return Dispatcher(self._listener.ports, self._listener.name, client, principal)

    def limit_frames(self, *, is_authenticated: bool) -> None:
        settings = self._listener.ports.live_config.settings
        self._limit(settings.socket_request_max_bytes if is_authenticated else self._listener.max_receive_bytes)

    def delay_refusal(self, then: Pause[None]) -> None:
        delay_ms = self._listener.ports.live_config.settings.connection_failed_authentication_delay_ms
        self._listener.ports.timers.call_later(delay_ms, then.end)

    def authenticated(
        self, principal: KafkaPrincipal, mechanism: str, *, reauthentication_ms: int | None, is_repeatable: bool
    ) -> None:
        listener = self._listener
        if reauthentication_ms is not None:
            listener.count("successful_reauthentication")
            listener.ports.counters.reauthentication_ms[listener.name].add(reauthentication_ms)
            return
        listener.count("successful_authentication")
        if not is_repeatable:
            listener.count("successful_authentication_no_reauth")
        log.debug("client_authenticated", principal=str(principal), mechanism=mechanism, peer=self.peer, listener=listener.name)

    def expired(self) -> None:
        self._listener.count("expired_connections_killed")

    def failed(self, *, is_again: bool) -> None:
        self._listener.count("failed_reauthentication" if is_again else "failed_authentication")

    def refused(self, reason: str, *, is_again: bool) -> None:
        self.failed(is_again=is_again)
        connection = self._connection
        # Close in the next iteration of the event loop, when the response has been written.
        self._listener.ports.timers.call_soon(lambda: connection.close(f"authentication failed: {reason}"))

    def nonce(self) -> str:
        return (self._listener.ports.env.random_uuid() + self._listener.ports.env.random_uuid()).hex()

    def now_ms(self) -> int:
        return self._listener.ports.clock.now_ms()

    def steady_ms(self) -> int:
        return self._listener.ports.clock.steady_ms()
