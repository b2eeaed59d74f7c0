"""The security of one `ottla.Broker` or `ottla.Cluster`: settings of its brokers, users, and the files of its clients."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.random_tokens import random_token
from ottla.testing.security.acls import Acl, BrokerAcls
from ottla.testing.security.client_configs import (
    CLIENTS,
    LOGIN,
    OAUTHBEARER,
    PLAIN,
    WITH_DELEGATION_TOKENS,
    ClientCredentials,
    java,
    properties,
    quoted,
)
from ottla.testing.security.delegation_token import DelegationToken

if TYPE_CHECKING:
    from ottla.client.kafka_client import KafkaClient
    from ottla.client.security.client_config import Connecting

MTLS: Final = "mTLS"
PROTOCOLS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    MTLS: "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
"""Kafka's security protocol by the value of ``security``."""
MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms that are enabled unless the caller's settings name others. OAUTHBEARER is not among them, because any client can
make an unsecured token for any user."""
ENABLED: Final = "sasl.enabled.mechanisms"
TOKEN_KEY: Final = "delegation.token.secret.key"
CLOCK_SKEW_MS: Final = 600_000
"""A manual clock still has the time of the broker's start, so for the broker a client's token is issued in the future."""
SCRAM_PREFIX: Final = "SCRAM-"
DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"
ADMIN: Final = "ottla-handle"
"""The super user as whom `ottla.Broker` and `ottla.Cluster` themselves connect."""
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
COMMON_NAME: Final = "RULE:^CN=(.*?)(?:,.*)?$/$1/"
"""The ssl.principal.mapping.rules that make a certificate's common name the name of the principal."""
CERTIFICATES: Final = ("valid", "expired", "other-host", "untrusted")
SERVER_STORE: Final = "server.pem"
OTHER_HOST: Final = "other-host.invalid"


class BrokerSecurity:
    """How clients connect to the brokers of a `Broker` or `Cluster`: protocol, users, ACLs, and certificates in its directory.

    ``users`` are passwords by name, or names for mTLS. Without ``acls`` the brokers have no authorizer. Raises ValueError for
    arguments that exclude each other, and ImportError without the package cryptography if certificates are needed.
    """

    def __init__(
        self,
        protocol: str | None,
        users: Mapping[str, str] | Iterable[str] | None,
        acls: Sequence[Acl] | None,
        *,
        directory: Path,
        host: str,
    ) -> None:
        self.name = protocol or "PLAINTEXT"
        if self.name not in PROTOCOLS:
            raise ValueError(f"security: {protocol!r} is not one of {', '.join(PROTOCOLS)}")
        self.protocol = PROTOCOLS[self.name]
        self._users = _users(self.name, users)
        if acls is not None and not self._has_principals:
            raise ValueError(f"acls: clients of {self.name} have no names; give security='SASL_SSL', 'SASL_PLAINTEXT' or 'mTLS'")
        if not all(isinstance(acl, Acl) for acl in acls or ()):
            raise ValueError('acls: give Acl values, as in [Acl("alice", "read", topic="orders")]')
        self._acls = None if acls is None else tuple(acls)
        self._password = random_token()
        self._token_key = random_token()
        self._directory = directory / "security"
        self._host = host
        self._mechanisms: tuple[str, ...] = MECHANISMS
        self._authority: Any = None
        self._client_certificates: dict[str, Path] = {}
        if self.has_tls:
            # `authority` is imported here, because only certificates need the package cryptography.
            from ottla.testing.security.authority import Authority

            self._authority = Authority("ottla tests")

    @property
    def is_plain(self) -> bool:
        return self.protocol == "PLAINTEXT"

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def _has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def _has_principals(self) -> bool:
        return self._has_sasl or self.name == MTLS

    # settings of the brokers

    def prepare(self, settings: Mapping[str, object], *, has_users: bool = True) -> list[str]:
        """Write the files, and return the arguments of ``ottla serve`` that name them. With ``has_users`` the broker creates the
        SCRAM users. ``settings`` are the caller's settings. Raises ValueError for mechanisms without PLAIN.
        """
        if self.is_plain:
            return []
        if self._has_sasl and ENABLED in settings:
            self._mechanisms = tuple(name.strip() for name in str(settings[ENABLED]).split(","))
            if PLAIN not in self._mechanisms:
                raise ValueError(f"settings: {ENABLED} is {settings[ENABLED]!r}; add {PLAIN}, by which the handle itself connects")
        if not self._directory.is_dir():
            self._directory.mkdir(mode=0o700)
            self._client_certificates.clear()
            if self.has_tls:
                self._write("ca.pem", self._authority.certificate)
                self.write_certificate("valid")
        given = self._broker_settings(str(settings.get("super.users", "")))
        arguments = [str(self._write("server.properties", properties(given)))]
        if has_users and self._has_sasl and self._users:
            lines = "".join(f"{name}:{password}\n" for name, password in self._users.items())
            # Passwords are in a file, because other users of the machine can see arguments.
            arguments += ["--users-file", str(self._write("users", lines))]
        return arguments

    def _broker_settings(self, super_users: str) -> dict[str, str]:
        given: dict[str, str] = {}
        if self.has_tls:
            given |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._directory / SERVER_STORE)}
            # A certificate of another host has none of the previous names.
            given |= {"ssl.allow.san.changes": "true"}
            given |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self._directory / "ca.pem")}
        if self.name == MTLS:
            given |= {"ssl.client.auth": "required", "ssl.principal.mapping.rules": COMMON_NAME}
        if self._has_sasl:
            of = f"listener.name.{self.protocol.lower()}"
            users = {**self._users, ADMIN: self._password}
            options = " ".join(f"{quoted(f'user_{name}')}={quoted(password)}" for name, password in users.items())
            given[ENABLED] = ",".join(self._mechanisms)
            given[TOKEN_KEY] = self._token_key
            skew = f'unsecuredValidatorAllowableClockSkewMs="{CLOCK_SKEW_MS}"'
            given[f"{of}.oauthbearer.sasl.jaas.config"] = f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required {skew};"
            given[f"{of}.plain.sasl.jaas.config"] = f"{LOGIN}.plain.PlainLoginModule required {options};"
        if self._acls is not None:
            given["authorizer.class.name"] = AUTHORIZER
        if self._has_principals:
            # Brokers of a cluster connect to each other without authentication, on 127.0.0.1.
            given["super.users"] = ";".join(filter(None, (super_users, f"User:{ADMIN}", "User:ANONYMOUS")))
        return given

    def present_certificate(self, kind: str, running: str | None) -> None:
        """Write another certificate, and have the broker at address ``running`` load it. Raises ValueError and `ClientError`."""
        self.write_certificate(kind)
        connecting = None if running is None else self.connecting(running)
        if running is not None and connecting is not None:
            # Imported here, because few tests change certificates.
            from ottla.testing.security.certificate_reload import reload_key_store

            own = self._client_certificate(ADMIN) if self.name == MTLS else None
            config = f"listener.name.{self.protocol.lower()}.ssl.keystore.location"
            reload_key_store(running, connecting, own, config, self._directory / SERVER_STORE)

    def write_certificate(self, kind: str) -> None:
        """Write the certificate that the brokers load at their next start. Raises ValueError."""
        if not self.has_tls:
            raise ValueError(f"a broker with the security protocol {self.protocol} has no certificate")
        if kind not in CERTIFICATES:
            raise ValueError(f"certificate: {kind!r} is not one of {', '.join(CERTIFICATES)}")
        hosts = [OTHER_HOST] if kind == "other-host" else list(dict.fromkeys(["localhost", "127.0.0.1", "::1", self._host]))
        authority = type(self._authority)("another authority") if kind == "untrusted" else self._authority
        self._write(SERVER_STORE, authority.issue("ottla", hosts, expired=kind == "expired"))

    def add_users(self, cluster: Callable[[], AbstractContextManager[KafkaClient]]) -> None:
        """Create the users of SCRAM in a running cluster. A single broker creates them from its arguments."""
        if self._has_sasl:
            from ottla.client.admin.users import set_password

            with cluster() as client:
                for name, password in self._users.items():
                    set_password(client.brokers, name, password)

    def add_acls(self, acls: BrokerAcls) -> None:
        """Create the ACLs on brokers that have none yet."""
        acls.add(*self._acls or ())

    # settings of clients

    def connecting(self, bootstrap: str) -> Connecting | None:
        """Return the credentials of `ADMIN`; None without TLS and SASL."""
        if self.is_plain:
            return None
        from ottla.client.security.client_config import Connecting

        return Connecting.parse(java(self._credentials(bootstrap, None, PLAIN, None)), prefix="")

    def client_config(
        self,
        bootstrap: str,
        client: str,
        user: str | None,
        mechanism: str | None,
        password: str | None,
        token: DelegationToken | None = None,
    ) -> dict[str, Any]:
        """Return the settings of a client library (`client_configs.CLIENTS`). Raises ValueError."""
        if client not in CLIENTS:
            raise ValueError(f"client: {client!r} is not one of {', '.join(CLIENTS)}")
        if token is not None and client not in WITH_DELEGATION_TOKENS:
            known = " and ".join(WITH_DELEGATION_TOKENS)
            raise ValueError(f"token: {client} cannot authenticate by a delegation token; the clients that can are {known}")
        return CLIENTS[client](self._credentials(bootstrap, user, mechanism, password, token))

    def client_properties(
        self, bootstrap: str, user: str | None, mechanism: str | None, token: DelegationToken | None = None
    ) -> Path:
        """Write the settings of Kafka's own tools to a file, and return its path. Raises ValueError."""
        settings = java(self._credentials(bootstrap, user, mechanism, None, token))
        self._directory.mkdir(mode=0o700, exist_ok=True)
        number = 1 + len(list(self._directory.glob("client-*.properties")))
        return self._write(f"client-{number}.properties", properties(settings))

    def delegation_token(self, cluster: Callable[[], AbstractContextManager[KafkaClient]], user: str) -> DelegationToken:
        """Create a delegation token of a user. Raises ValueError and `ClientError`."""
        self._check_has_tokens()
        if user not in self._users and OAUTHBEARER not in self._mechanisms:
            raise ValueError(f"unknown user {user!r}; the users of this broker are {', '.join(self._users) or 'none'}")
        # Imported here, because few tests use delegation tokens.
        from ottla.client.admin.delegation_tokens import create_token
        from ottla.security.principal import KafkaPrincipal

        with cluster() as client:
            made = create_token(client.brokers, KafkaPrincipal("User", user))
        hmac = base64.b64encode(made.hmac).decode()
        return DelegationToken(token_id=made.token_id, hmac=hmac, owner=user, expires_ms=made.expiry_timestamp_ms)

    def _check_has_tokens(self) -> None:
        if not self._has_sasl:
            raise ValueError(f"clients of {self.name} have no delegation tokens; give security='SASL_SSL' or 'SASL_PLAINTEXT'")

    def _credentials(
        self,
        bootstrap: str,
        user: str | None,
        mechanism: str | None,
        password: str | None,
        token: DelegationToken | None = None,
    ) -> ClientCredentials:
        """Raise ValueError for a user or mechanism that the brokers do not have."""
        made = ClientCredentials(
            bootstrap=bootstrap, protocol=self.protocol, trusted=self._directory / "ca.pem" if self.has_tls else None
        )
        if token is not None:
            return self._authenticated_by_token(made, user, mechanism, password, token)
        if not self._has_principals:
            if user is not None:
                raise ValueError(f"user: clients of {self.name} have no names; leave user= out")
            return made
        return self._authenticated(made, user, mechanism, password)

    def _authenticated(
        self, made: ClientCredentials, user: str | None, mechanism: str | None, password: str | None
    ) -> ClientCredentials:
        if self.name == MTLS:
            return replace(made, own=self._client_certificate(user or ADMIN))
        if mechanism is not None and mechanism not in self._mechanisms:
            hint = f"; give settings={{{ENABLED!r}: ...}} to enable it" if mechanism == OAUTHBEARER else ""
            raise ValueError(f"mechanism: {mechanism!r} is not one of {', '.join(self._mechanisms)}{hint}")
        if mechanism == OAUTHBEARER:
            if user is None or password is not None or not user.isprintable() or " " in user:
                raise ValueError(f"mechanism: clients with {OAUTHBEARER} need user=, a name without spaces, and have no password")
            return replace(made, mechanism=OAUTHBEARER, user=user)
        if user is not None and user not in self._users and password is None:
            known = ", ".join(self._users) or "none"
            raise ValueError(f"unknown user {user!r}; the users of this broker are {known}, and others need password=")
        if user is None:
            if mechanism not in (None, PLAIN):
                raise ValueError(f"mechanism: without user= only {PLAIN} is possible; give user= as well")
            # `ADMIN` authenticates with PLAIN, because SCRAM users do not exist at first.
            return replace(made, mechanism=PLAIN, user=ADMIN, password=self._password)
        known_password = self._users.get(user, "") if password is None else password
        return replace(made, mechanism=mechanism or DEFAULT_MECHANISM, user=user, password=known_password)

    def _authenticated_by_token(
        self, made: ClientCredentials, user: str | None, mechanism: str | None, password: str | None, token: DelegationToken
    ) -> ClientCredentials:
        self._check_has_tokens()
        if user is not None or password is not None:
            raise ValueError("token: a delegation token replaces user= and password=; leave them out")
        possible = [name for name in self._mechanisms if name.startswith(SCRAM_PREFIX)]
        chosen = mechanism or (DEFAULT_MECHANISM if DEFAULT_MECHANISM in possible else next(iter(possible), None))
        if chosen is None or chosen not in possible:
            if not possible:
                raise ValueError("mechanism: clients with a delegation token need SCRAM, and no SCRAM mechanism is enabled")
            raise ValueError(f"mechanism: clients with a delegation token need {' or '.join(possible)}, not {chosen!r}")
        return replace(made, mechanism=chosen, user=token.token_id, password=token.hmac, is_delegated=True)

    def _client_certificate(self, name: str) -> Path:
        if name not in self._client_certificates:
            number = len(self._client_certificates)
            self._client_certificates[name] = self._write(f"client-{number}.pem", self._authority.issue(name))
        return self._client_certificates[name]

    def _write(self, name: str, text: str) -> Path:
        file = self._directory / name
        file.touch(mode=0o600)
        file.write_text(text)
        return file

    def listener(self, address: str) -> list[str]:
        """Return the arguments of ``ottla serve`` for the listener of clients."""
        return ["--listen", address] if self.is_plain else ["--set", f"listeners={self.protocol}://{address}"]


def _users(protocol: str, users: Mapping[str, str] | Iterable[str] | None) -> dict[str, str]:
    """Return passwords by name; empty passwords for mTLS. Raises ValueError."""
    if not users:
        return {}
    if protocol == MTLS:
        if isinstance(users, Mapping | str):
            raise ValueError('users: clients of mTLS have certificates, not passwords; give names, as in ["alice"]')
        return dict.fromkeys(users, "")
    if not protocol.startswith("SASL"):
        raise ValueError(f"users: clients of {protocol} have no names; give security='SASL_SSL', 'SASL_PLAINTEXT' or 'mTLS'")
    if not isinstance(users, Mapping) or not all(name and password for name, password in users.items()):
        raise ValueError('users: give a password for each name, as in {"alice": "secret"}')
    for name, password in users.items():
        if ":" in name or not (name + password).isprintable():
            raise ValueError(f"users: {name!r} has a colon in the name, or a control character in name or password")
        if name != name.strip() or name.startswith("#"):
            raise ValueError(f"users: {name!r} begins or ends with a space, or begins with #; give another name")
    return dict(users)
