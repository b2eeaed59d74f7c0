"""An Apache Kafka broker that requires a client certificate, a password or a token."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import trustme

from tests.client.security.certificates import pem_of, store
from tools.kafka import ApacheKafka, free_port

LOGIN = "org.apache.kafka.common.security"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
WAYS = [*MECHANISMS, "mTLS"]


def token() -> str:
    """An unsecured token (RFC 7515, appendix A.5), which Kafka accepts if no validator is configured."""

    def part(claims: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'sub': 'shop', 'iat': time.time() - 5, 'exp': time.time() + 600})}."


class Secured:
    """A broker with listeners for SASL_SSL and SSL, and the options that a client needs."""

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        trusted = store(directory / "ca.pem", authority.cert_pem.bytes().decode())
        server = store(directory / "server.pem", pem_of(authority.issue_cert("localhost", "127.0.0.1")))
        self._own = store(directory / "client.pem", pem_of(authority.issue_cert("shop"), "of the key"))
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
        credentials = [a for m in MECHANISMS[1:3] for a in ("--add-scram", f"{m}=[name=shop,password=secret]")]
        self.kafka = ApacheKafka(
            directory / "kafka",
            settings=settings,
            format_arguments=("--standalone", *credentials),
            listeners=self._ports,
        )

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
