"""TLS and SASL of this node's connections to one listener of the other nodes (Kafka's ChannelBuilder for clients)."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import msgspec
import structlog

from ottla.addresses import Address
from ottla.broker.config.definitions import ConfigError, reloadable_of
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.loop.env import Env
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.peers.authentication import Authentication
from ottla.broker.peers.endpoint_tokens import NodeTokens
from ottla.broker.peers.versions import Versions
from ottla.client.errors import ClientError
from ottla.client.security.client_config import Connecting, Tls, TokenEndpoint
from ottla.client.security.tls import context_of, distrust_of, refusal_of

log = structlog.get_logger("peer")


class PeerSecurity:
    """TLS and SASL settings that the connections to one listener share, so that each reason for a refused peer is logged once.

    Implements `live_config.Reconfigurable`: after a change, new connections use the new keys and certificates.
    """

    def __init__(self, env: Env, settings: Callable[[BrokerConfig], Connecting], config: BrokerConfig, listener: str) -> None:
        """``settings`` reads the settings of the connections, which are loaded again when a key store of ``listener`` changes.

        Raises `ConfigError` for settings that cannot be used.
        """
        self._env = env
        self._errors = RepeatedErrors(env, log)
        self._tokens: dict[TokenEndpoint, NodeTokens] = {}
        self._settings = settings
        self.reloads = reloadable_of(listener)
        self._connecting, self.tls = self._load(config)

    def _load(self, config: BrokerConfig) -> tuple[Connecting, ssl.SSLContext | None]:
        connecting = self._settings(config)
        try:
            connecting = self._with_tokens(connecting)
            return connecting, None if connecting.tls is None else context_of(connecting.tls)
        except ClientError as error:
            raise ConfigError(str(error)) from None

    def _with_tokens(self, connecting: Connecting) -> Connecting:
        """Replace an OAuth endpoint by a function that returns its current token. Raises `ClientError` without a first token."""
        sasl = connecting.sasl
        if sasl is None or not isinstance(sasl.token, TokenEndpoint):
            return connecting
        if sasl.token not in self._tokens:
            self._tokens[sasl.token] = NodeTokens(self._env, sasl.token)
        return msgspec.structs.replace(connecting, sasl=msgspec.structs.replace(sasl, token=self._tokens[sasl.token].current))

    def check(self, config: BrokerConfig) -> None:
        self._load(config)

    def use(self, config: BrokerConfig) -> None:
        try:
            self._connecting, self.tls = self._load(config)
        except ConfigError as error:
            log.error("key_store_ignored", reason=str(error), hint="the previous key store is still used")

    def authentication(self, address: Address, versions: Versions, client_id: str) -> Authentication | None:
        """Begin to authenticate on a connection; None without SASL. Raises `AuthenticationRefused`."""
        return None if self._connecting.sasl is None else Authentication(self._connecting, address, versions, client_id)

    def refusal(self, error: Exception, address: Address) -> str | None:
        """The reason that TLS failed, if a certificate or a setting is the cause; None for other errors."""
        tls = self._connecting.tls
        if tls is None or not isinstance(error, ssl.SSLError):
            return None
        if isinstance(error, ssl.SSLCertVerificationError):
            return distrust_of(error, tls, address, {})
        return refusal_of(error, tls, address) or _described(error, tls)

    def refused(self, peer: str, reason: str) -> None:
        """Log that this node and a peer do not accept each other: each reason once, and then its count at growing intervals."""
        self._errors.failed("peer_authentication_failed", reason, key=peer, peer=peer)

    def accepted(self, peer: str) -> None:
        self._errors.succeeded(peer)


def _described(error: ssl.SSLError, tls: Tls) -> str:
    reason = str(error.reason or "unknown error").lower().replace("_", " ")
    return f"the TLS handshake failed ({reason}): see {tls.prefix}listener.security.protocol.map"
