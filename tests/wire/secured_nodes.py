"""Settings of nodes that connect to each other by TLS and SASL, and of clients of their secured listener."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import trustme

from tests.client.security.certificates import pem_of, store
from tests.wire.secured import LOGIN

ADMIN, ADMIN_PASSWORD = "admin", "of the nodes"
USER, PASSWORD = "alice", "secret of alice"
SCRAM = "SCRAM-SHA-512"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class SecuredNodes:
    """The certificates of a cluster on localhost. ``between`` is the security protocol between its nodes.

    With ``needs_certificates`` nodes and clients present certificates, whose common name is their user. Nodes and clients of SASL
    authenticate by ``mechanism``. ``is_super``: whether the user is a super user like the administrator.
    """

    def __init__(
        self,
        directory: Path,
        between: str = "SASL_SSL",
        *,
        mechanism: str = "PLAIN",
        needs_certificates: bool = False,
        is_super: bool = True,
    ) -> None:
        self.between, self.mechanism, self._directory = between, mechanism, directory
        self._needs_certificates, self._is_super = needs_certificates, is_super
        self.passwords = {ADMIN: ADMIN_PASSWORD, USER: PASSWORD}
        self.authority = trustme.CA()
        self.trusted = store(directory / "ca.pem", self.authority.cert_pem.bytes().decode())
        self.own = store(directory / "node.pem", pem_of(self.authority.issue_cert("localhost", "127.0.0.1", common_name=ADMIN)))
        # Java refuses a certificate without alternative names of its subject.
        self._of_user = store(directory / "user.pem", pem_of(self.authority.issue_cert(f"{USER}.example", common_name=USER)))

    def settings(self, password: str = ADMIN_PASSWORD) -> dict[str, str]:
        """Settings of all nodes, which authenticate with ``password``."""
        module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
        jaas = f'{LOGIN}.{module} required username="{ADMIN}" password="{password}"'
        if self.mechanism == "PLAIN":
            jaas += f' user_{ADMIN}="{ADMIN_PASSWORD}" user_{USER}="{PASSWORD}"'
        names = (self.between.lower(), "controller")
        settings = {
            "sasl.enabled.mechanisms": self.mechanism,
            "sasl.mechanism.inter.broker.protocol": self.mechanism,
            "sasl.mechanism.controller.protocol": self.mechanism,
            **{f"listener.name.{name}.{self.mechanism.lower()}.sasl.jaas.config": f"{jaas};" for name in names},
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.own,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trusted,
            "authorizer.class.name": AUTHORIZER,
            # Tests use the plain listener as an administrator, and the secured listener as the user.
            "super.users": f"User:{ADMIN};User:ANONYMOUS" + (f";User:{USER}" if self._is_super else ""),
        }
        if self._needs_certificates:
            settings |= {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=(.*?)(?:,.*)?$/$1/"}
        return settings

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
        given = {
            "bootstrap.servers": ",".join(addresses),
            "security.protocol": self.between,
            "ssl.ca.location": self.trusted,
        }
        if self.between.startswith("SASL"):
            given |= {"sasl.mechanism": self.mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
        if self._needs_certificates:
            given |= {"ssl.certificate.location": self._of_user, "ssl.key.location": self._of_user}
        return given
