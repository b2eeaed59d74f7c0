"""A broker of ottla or of Apache Kafka that requires a client certificate, a password or a token."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import trustme

from tests.client.security.certificates import pem_of, store
from tests.wire.secured import LOGIN, MECHANISMS, SecuredBroker
from tools.kafka import ApacheKafka, free_port

WAYS = [*MECHANISMS, "mTLS"]


def token() -> str:
    """An unsecured token (RFC 7515, appendix A.5), which Kafka accepts if no validator is configured."""

    def part(claims: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'sub': 'shop', 'iat': time.time() - 5, 'exp': time.time() + 600})}."


class Running(NamedTuple):
    bootstrap: str
    stop: Callable[[], None]


def _ottla(directory: Path, settings: dict[str, str], ports: dict[str, int]) -> Running:
    directory.mkdir()
    plain = free_port()
    listeners = ",".join(f"{name}://localhost:{port}" for name, port in {"PLAINTEXT": plain, **ports}.items())
    given = {**settings, "listeners": listeners, "ssl.client.auth": "none", "ssl.key.password": ""}
    given["ssl.principal.mapping.rules"] = "DEFAULT"
    broker = SecuredBroker(directory, given, "secret", user="shop")

    def stop() -> None:
        broker.close()
        assert not [line for line in broker.logged() if line["level"] in ("error", "critical")]

    return Running(broker.bootstrap, stop)


def _kafka(directory: Path, settings: dict[str, str], ports: dict[str, int]) -> Running:
    credentials = [a for m in MECHANISMS[1:3] for a in ("--add-scram", f"{m}=[name=shop,password=secret]")]
    broker = ApacheKafka(directory, settings=settings, format_arguments=("--standalone", *credentials), listeners=ports)
    broker.start()
    return Running(broker.bootstrap, broker.stop)


class Secured:
    """A broker with listeners for SASL_SSL and SSL, and the options that a client needs. ``kind`` is ``ottla`` or ``kafka``."""

    def __init__(self, directory: Path, kind: str = "kafka") -> None:
        authority = trustme.CA()
        trusted = store(directory / "ca.pem", authority.cert_pem.bytes().decode())
        server = store(directory / "server.pem", pem_of(authority.issue_cert("localhost", "127.0.0.1")))
        certificate = authority.issue_cert("shop")
        self._own = store(directory / "client.pem", pem_of(certificate, "of the key"))
        self._readable_by_java = store(directory / "plain.pem", pem_of(certificate))
        self._stores = {"ssl.truststore.type": "PEM", "ssl.truststore.location": trusted}
        self._ports = {"SASL_SSL": free_port(), "SSL": free_port()}
        of_sasl = "listener.name.sasl_ssl"
        settings = {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{of_sasl}.plain.sasl.jaas.config": f'{LOGIN}.plain.PlainLoginModule required user_shop="secret";',
            f"{of_sasl}.scram-sha-256.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
            f"{of_sasl}.scram-sha-512.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
            f"{of_sasl}.oauthbearer.sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": server,
            **self._stores,
        }
        self._broker = (_ottla if kind == "ottla" else _kafka)(directory / kind, settings, self._ports)
        self.bootstrap = self._broker.bootstrap
        """The address of the plain listener."""

    def stop(self) -> None:
        self._broker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def java_options(self, way: str) -> dict[str, str]:
        """Options that Java's clients accept as well. Kafka's clients cannot decrypt the client's key with Java 17."""
        given = self.options(way)
        if way == "mTLS":
            del given["kafka.ssl.key.password"]
            given["kafka.ssl.keystore.location"] = self._readable_by_java
        return given

    def options(self, way: str, **others: Any) -> dict[str, Any]:
        protocol = "SSL" if way == "mTLS" else "SASL_SSL"
        given: dict[str, Any] = {"security.protocol": protocol, "bootstrap.servers": f"localhost:{self._ports[protocol]}"}
        given |= self._stores
        if way == "mTLS":
            given |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self._own, "ssl.key.password": "of the key"}
        elif way == "OAUTHBEARER":
            given |= {"sasl.mechanism": way, "sasl.oauthbearer.token.function": token}
        else:
            module = "plain.PlainLoginModule" if way == "PLAIN" else "scram.ScramLoginModule"
            jaas = f'{LOGIN}.{module} required username="shop" password="secret";'
            given |= {"sasl.mechanism": way, "sasl.jaas.config": jaas}
        return {f"kafka.{name}": value for name, value in (given | others).items()}
