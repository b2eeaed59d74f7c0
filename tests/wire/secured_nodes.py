"""Settings of nodes that connect to each other by TLS and SASL, and of clients of their secured listener."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import trustme

from tests.client.security.certificates import pem_of, store
from tests.wire.secured import LOGIN

ADMIN, ADMIN_PASSWORD = "admin", "of the nodes"
USER, PASSWORD = "alice", "secret of alice"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class SecuredNodes:
    """The certificates of a cluster on localhost. ``between`` is the security protocol between its nodes."""

    def __init__(self, directory: Path, between: str = "SASL_SSL") -> None:
        self.between, self._directory = between, directory
        self.passwords = {ADMIN: ADMIN_PASSWORD, USER: PASSWORD}
        self.authority = trustme.CA()
        self.trusted = store(directory / "ca.pem", self.authority.cert_pem.bytes().decode())
        self.own = store(directory / "node.pem", pem_of(self.authority.issue_cert("localhost", "127.0.0.1")))

    def settings(self, password: str = ADMIN_PASSWORD) -> dict[str, str]:
        """Settings of all nodes, which authenticate with ``password``."""
        jaas = (
            f'{LOGIN}.plain.PlainLoginModule required username="{ADMIN}" password="{password}"'
            f' user_{ADMIN}="{ADMIN_PASSWORD}" user_{USER}="{PASSWORD}";'
        )
        return {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            **{f"listener.name.{name}.plain.sasl.jaas.config": jaas for name in (self.between.lower(), "controller")},
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.own,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trusted,
            "authorizer.class.name": AUTHORIZER,
            # Tests use the plain listener as an administrator, and the secured listener as the user.
            "super.users": f"User:{ADMIN};User:ANONYMOUS;User:{USER}",
        }

    def faulty(self, fault: str) -> str:
        """Return the path of a key store with a wrong certificate."""
        hosts = ("localhost", "127.0.0.1")
        if fault == "expired":
            made = self.authority.issue_cert(
                *hosts, not_after=datetime(2020, 1, 2, tzinfo=UTC), not_before=datetime(2020, 1, 1, tzinfo=UTC)
            )
        else:
            made = trustme.CA().issue_cert(*hosts) if fault == "untrusted" else self.authority.issue_cert("elsewhere.example")
        return store(self._directory / "faulty.pem", pem_of(made))

    def client(self, *addresses: str) -> dict[str, str]:
        """Options of a librdkafka client that connects as the user."""
        return {
            "bootstrap.servers": ",".join(addresses),
            "security.protocol": self.between,
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": self.trusted,
        }
