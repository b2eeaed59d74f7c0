"""Parses the address of a cluster and the client's credentials from options with Kafka's property names.

In Spark these names have the prefix ``kafka.``, like options of Spark's own Kafka source. Only options for Java classes differ:
certificate stores are PEM (KIP-651) or PKCS12, and a token comes from a Python function. No ``repr`` and no error shows a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ottla.addresses import bootstrap_addresses
from ottla.arguments import BadArgument
from ottla.client.errors import ClientError
from ottla.client.security.http_client import check_url
from ottla.security.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasError, LoginModule, login_module

PREFIX: Final = "kafka."
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")

SERVERS: Final = "bootstrap.servers"
PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"
HOSTNAMES: Final = "ssl.endpoint.identification.algorithm"
TRUST_STORE: Final = "ssl.truststore"
KEY_STORE: Final = "ssl.keystore"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
FUNCTION: Final = "sasl.oauthbearer.token.function"
"""The Python function that returns a token, in place of Java's ``sasl.login.callback.handler.class``."""

TAKEN: Final = frozenset(
    {
        SERVERS,
        PROTOCOL,
        MECHANISM,
        JAAS,
        "sasl.username",
        "sasl.password",
        ENDPOINT,
        FUNCTION,
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.login.callback.handler.class",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        HOSTNAMES,
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
    }
)
"""Supported options, with Java's names, or with librdkafka's names where Java has no option for PEM files."""
WITHOUT_EFFECT: Final = frozenset(
    {
        "ssl.protocol",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.login.retry.backoff.max.ms",
    }
)
"""Options of Java's client for which this client has no equivalent. They are ignored."""
NOT_TAKEN: Final = MappingProxyType(
    {
        "ssl.provider": "it names a class of Java",
        "ssl.engine.factory.class": "it names a class of Java",
        "security.providers": "it names a class of Java",
        "sasl.login.class": "it names a class of Java",
        "sasl.client.callback.handler.class": "it names a class of Java",
        "sasl.kerberos.service.name": f"Kerberos is not supported; supported are {', '.join(MECHANISMS)}",
    }
)
OF_CONNECTIONS: Final = ("bootstrap.", "security.", "sasl.", "ssl.")
_SURELY: Final = 0.85
"""An unknown option is refused as a misspelling if its similarity (`difflib`) to a known option is at least this. Less similar
names may be options of producers."""


class Secret(msgspec.Struct, frozen=True):
    """A text that ``repr`` does not show."""

    text: str

    def __repr__(self) -> str:
        return "Secret(...)"


class Pem(msgspec.Struct, frozen=True):
    """PEM text, in a file on the machine that connects or as the value of ``option``. With a ``password`` the file is PKCS12."""

    option: str
    location: str = ""
    text: Secret | None = None
    password: Secret | None = None


class Tls(msgspec.Struct, frozen=True):
    """TLS settings. Without ``trusted`` the system's certificates are trusted. ``certificate`` and ``key`` identify the client in
    mutual TLS."""

    trusted: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    key_password: Secret | None = None
    checks_hostname: bool = True
    versions: tuple[str, ...] = TLS_VERSIONS
    prefix: str = PREFIX
    cipher_suites: tuple[str, ...] = ()
    """IANA's names of the enabled cipher suites; empty for OpenSSL's own selection."""


class Token(msgspec.Struct, frozen=True):
    """A bearer token. ``expires_s`` is in seconds since 1970; ``extensions`` are SASL extensions (KIP-342)."""

    value: Secret
    expires_s: float | None = None
    extensions: dict[str, str] = {}


TokenFunction = Callable[[], "Token | str | tuple[str, float]"]
"""Returns a token, the token's text, or text and expiry in seconds since 1970 like confluent-kafka's ``oauth_cb``."""


class TokenEndpoint(msgspec.Struct, frozen=True):
    """An OAuth endpoint that issues tokens with the client credentials grant (KIP-768)."""

    url: str
    client_id: str
    client_secret: Secret
    scope: str = ""
    prefix: str = PREFIX

    def __post_init__(self) -> None:
        """Raise `ClientError` for an invalid URL."""
        check_url(f"{self.prefix}{ENDPOINT}", self.url, f"clientId and clientSecret in {self.prefix}{JAAS}")


class Sasl(msgspec.Struct, frozen=True):
    """The client's credentials. For OAUTHBEARER, ``token`` is an endpoint, a function, or the ``module:function`` to import."""

    mechanism: str
    username: str = ""
    password: Secret = Secret("")
    is_delegated: bool = False
    """Whether user name and password are the id and the HMAC of a delegation token (KIP-48)."""
    token: TokenFunction | TokenEndpoint | str | None = None
    prefix: str = PREFIX


class Connecting(msgspec.Struct, frozen=True):
    """The settings for connections to all brokers of a cluster. Spark sends them pickled to executors. In errors the names of
    options begin with ``prefix``."""

    bootstrap: str
    tls: Tls | None = None
    sasl: Sasl | None = None
    prefix: str = PREFIX

    @property
    def protocol(self) -> str:
        return PROTOCOLS[(self.tls is not None) + 2 * (self.sasl is not None)]

    @classmethod
    def parse(cls, options: Mapping[str, Any], prefix: str = PREFIX) -> Connecting:
        """Parse ``bootstrap.servers``, ``security.protocol`` and the other connection options, whose names begin with ``prefix``.
        Other options are ignored.

        Raises `ClientError` for a connection option that is unknown, not supported or contradicts another option.
        """
        given = _of_the_connection(options, prefix)
        bootstrap = given.get(SERVERS)
        if not bootstrap:
            raise ClientError(f"{prefix}{SERVERS} is missing: give HOST:PORT,...")
        try:
            bootstrap_addresses(str(bootstrap))
        except BadArgument as error:
            raise ClientError(f"{prefix}{SERVERS}: {error}") from None
        protocol = str(given.get(PROTOCOL, "PLAINTEXT")).upper()
        if protocol not in PROTOCOLS:
            raise ClientError(f"{prefix}{PROTOCOL} is {protocol!r}, but must be one of {', '.join(PROTOCOLS)}")
        has_tls, has_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
        for name in given:
            if (name.startswith("ssl.") and not has_tls) or (name.startswith("sasl.") and not has_sasl):
                # Unlike Java's client, refuse options of TLS or SASL that the protocol does not use: the user probably expects TLS
                # or SASL.
                raise ClientError(
                    f"{prefix}{name} is given, but {prefix}{PROTOCOL} is {protocol}, which does not use it: give"
                    f" {' or '.join(_protocols_for(name, protocol))}"
                )
        return cls(str(bootstrap), _tls(given, prefix) if has_tls else None, _sasl(given, prefix) if has_sasl else None, prefix)


def _protocols_for(option: str, protocol: str) -> list[str]:
    """Return the protocols that extend ``protocol`` by TLS or SASL, so that ``option`` has an effect."""
    has_tls = protocol.endswith("SSL") or option.startswith("ssl.")
    has_sasl = protocol.startswith("SASL") or option.startswith("sasl.")
    return [p for p in PROTOCOLS if p.endswith("SSL") >= has_tls and p.startswith("SASL") >= has_sasl]


def _of_the_connection(options: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the given options that are in `TAKEN`, without their prefix."""
    given: dict[str, Any] = {}
    for option, value in options.items():
        name = option.lower()
        if not name.startswith(prefix):
            if name in TAKEN:
                raise ClientError(f"{option} has no effect without its prefix: give {prefix}{name}")
            continue
        name = name.removeprefix(prefix)
        if value is None or name in WITHOUT_EFFECT:
            continue
        if name in TAKEN:
            given[name] = value
            continue
        if name in NOT_TAKEN:
            raise ClientError(f"{option} is not supported: {NOT_TAKEN[name]}")
        is_ours = name.startswith(OF_CONNECTIONS)
        likely = get_close_matches(name, sorted(TAKEN), n=1, cutoff=0.6 if is_ours else _SURELY)
        if is_ours or likely:
            raise ClientError(f"unknown option {option}" + (f"; did you mean {prefix}{likely[0]}?" if likely else ""))
    return given


def _tls(given: Mapping[str, Any], prefix: str) -> Tls:
    trusts, keys = _store_password(given, TRUST_STORE, prefix), _store_password(given, KEY_STORE, prefix)
    trusted = _pem(
        given, (f"{TRUST_STORE}.location", "ssl.ca.location"), (f"{TRUST_STORE}.certificates", "ssl.ca.pem"), trusts, prefix
    )
    certificate = _pem(
        given,
        (f"{KEY_STORE}.location", "ssl.certificate.location"),
        (f"{KEY_STORE}.certificate.chain", "ssl.certificate.pem"),
        keys,
        prefix,
    )
    key = _pem(given, (f"{KEY_STORE}.location", "ssl.key.location"), (f"{KEY_STORE}.key", "ssl.key.pem"), keys, prefix)
    if (certificate is None) != (key is None):
        one, other = ("certificate chain", "key") if key is None else ("key", "certificate chain")
        raise ClientError(
            f"{prefix}ssl.keystore: the client's {one} is given, but not its {other}: give {prefix}ssl.keystore.location, a PEM"
            f" file with both, or {prefix}ssl.keystore.certificate.chain and {prefix}ssl.keystore.key"
        )
    hostnames = str(given.get(HOSTNAMES, "https")).lower()
    if hostnames not in ("https", "", "none"):
        raise ClientError(f"{prefix}{HOSTNAMES} is {hostnames!r}, but must be https, or empty to trust any host")
    versions = tuple(version.strip() for version in str(given.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3")).split(","))
    if not set(versions) <= set(TLS_VERSIONS):
        raise ClientError(f"{prefix}ssl.enabled.protocols must be one or more of {' and '.join(TLS_VERSIONS)}")
    password = given.get("ssl.key.password")
    secret = None if password is None else Secret(str(password))
    suites = tuple(filter(None, (suite.strip() for suite in str(given.get("ssl.cipher.suites") or "").split(","))))
    return Tls(trusted, certificate, key, secret, hostnames == "https", versions, prefix, suites)


def _pem(
    given: Mapping[str, Any], locations: tuple[str, ...], texts: tuple[str, ...], password: Secret | None, prefix: str
) -> Pem | None:
    named = [name for name in (*locations, *texts) if given.get(name)]
    if len(named) > 1:
        raise ClientError(f"{prefix}{named[0]} and {prefix}{named[1]} exclude each other: give one of them")
    if not named:
        return None
    value = str(given[named[0]])
    if named[0] in texts:
        return Pem(prefix + named[0], text=Secret(value))
    return Pem(prefix + named[0], location=value, password=password if named[0] == locations[0] else None)


def _store_password(given: Mapping[str, Any], store: str, prefix: str) -> Secret | None:
    """Return the password of a PKCS12 store; None for PEM. Without a type, a store with a password is PKCS12.

    The type JKS is accepted, because it is Java's default, with which Java also reads PKCS12.
    """
    password = given.get(f"{store}.password")
    kind = str(given.get(f"{store}.type", "PEM" if password is None else "PKCS12")).upper()
    if kind not in ("PEM", "PKCS12", "JKS"):
        raise ClientError(f"{prefix}{store}.type is {kind!r}, but must be PEM or PKCS12")
    if kind == "PEM":
        if password is not None:
            raise ClientError(f"{prefix}{store}.password is given, but a PEM store has no password: see {prefix}ssl.key.password")
        return None
    if given.get(f"{store}.location") and password is None:
        raise ClientError(f"{prefix}{store}.type is {kind}, but {prefix}{store}.password is missing: give it, or a PEM store")
    return None if password is None else Secret(str(password))


def conversion(location: object) -> str:
    """Return a text that explains how to convert a Java store to PEM."""
    store = location or "STORE"
    return (
        f"convert a Java store with `keytool -importkeystore -srckeystore {store} -destkeystore store.p12 -deststoretype PKCS12`"
        " and `openssl pkcs12 -in store.p12 -nodes -out store.pem`"
    )


def _sasl(given: Mapping[str, Any], prefix: str) -> Sasl:
    mechanism = str(given.get(MECHANISM, "")).upper()
    if mechanism not in MECHANISMS:
        said = f"is {mechanism!r};" if mechanism else "is missing:"
        raise ClientError(f"{prefix}{MECHANISM} {said} it must be one of {', '.join(MECHANISMS)}")
    module = _login_module(given, prefix)
    if mechanism == OAUTHBEARER:
        return Sasl(mechanism, token=_token(given, {} if module is None else module.options, prefix), prefix=prefix)
    for name in (ENDPOINT, FUNCTION):
        if name in given:
            raise ClientError(f"{prefix}{name} needs {prefix}{MECHANISM}={OAUTHBEARER}, but {prefix}{MECHANISM} is {mechanism}")
    if module is None:
        username, password = given.get("sasl.username"), given.get("sasl.password")
    else:
        wanted, name = (one.rpartition(".")[2] for one in (PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE, module.name))
        if name != wanted:
            raise ClientError(f"{prefix}{JAAS} has a {name}, but {prefix}{MECHANISM} {mechanism} needs a {wanted}")
        username, password = module.options.get("username"), module.options.get("password")
    if not username or password is None:
        raise ClientError(
            f"{prefix}{MECHANISM} {mechanism} needs a user name and a password: give {prefix}{JAAS}, or {prefix}sasl.username and"
            f" {prefix}sasl.password"
        )
    is_delegated = mechanism != PLAIN and module is not None and module.options.get("tokenauth", "").lower() == "true"
    return Sasl(mechanism, str(username), Secret(str(password)), is_delegated=is_delegated, prefix=prefix)


def _login_module(given: Mapping[str, Any], prefix: str) -> LoginModule | None:
    if JAAS not in given:
        return None
    if "sasl.username" in given or "sasl.password" in given:
        raise ClientError(f"{prefix}{JAAS} and {prefix}sasl.username exclude each other: give one of them")
    try:
        return login_module(str(given[JAAS]))
    except JaasError as error:
        raise ClientError(f"{prefix}{JAAS}: {error}") from None


def _token(given: Mapping[str, Any], login: Mapping[str, str], prefix: str) -> TokenFunction | TokenEndpoint | str:
    function = given.get(FUNCTION)
    if function is not None and ENDPOINT in given:
        raise ClientError(f"{prefix}{FUNCTION} and {prefix}{ENDPOINT} exclude each other: give one of them")
    if callable(function):
        return function  # type: ignore[no-any-return]
    if function is not None:
        module, _, name = str(function).partition(":")
        if not module or not name.isidentifier():
            raise ClientError(f"{prefix}{FUNCTION} must be a function or its import path, as in my.module:function")
        return str(function)
    if ENDPOINT not in given:
        raise ClientError(
            f"{prefix}{MECHANISM} {OAUTHBEARER} needs {prefix}{FUNCTION}, a function that returns a token, or {prefix}{ENDPOINT}"
        )
    url = str(given[ENDPOINT])
    check_url(f"{prefix}{ENDPOINT}", url, f"clientId and clientSecret in {prefix}{JAAS}")
    client_id = given.get("sasl.oauthbearer.client.credentials.client.id", login.get("clientId"))
    secret = given.get("sasl.oauthbearer.client.credentials.client.secret", login.get("clientSecret"))
    if not client_id or secret is None:
        raise ClientError(f"{prefix}{ENDPOINT} needs clientId and clientSecret in {prefix}{JAAS}")
    scope = given.get("sasl.oauthbearer.scope", login.get("scope", ""))
    return TokenEndpoint(url, str(client_id), Secret(str(secret)), str(scope), prefix)
