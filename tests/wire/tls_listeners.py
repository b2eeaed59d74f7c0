"""ottla and Apache Kafka with the same listeners, which differ in their settings of TLS."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from ottla.client import KafkaClient
from ottla.testing.security.acls import Acl, BrokerAcls
from tests.client.security.certificates import pem_of, pkcs12_store, store
from tests.wire.secured import LOGIN, SecuredBroker
from tools.kafka import ApacheKafka, Unavailable, free_port

BY_CERTIFICATE, BY_PASSWORD, PASSWORD = "shop", "alice", "secret"
"""The user of a client certificate, and the user of a password. Clients with neither are the super user ``User:ANONYMOUS``."""
TOPICS: Final = {BY_CERTIFICATE: "of-shop", BY_PASSWORD: "of-alice"}
"""The only topic that a user may describe. The super user may describe all of them."""
STORE_PASSWORD: Final = "of the store"
SUITE, CIPHER, OTHER_CIPHER = (
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
)
"""A cipher suite in Java's words, and two suites in OpenSSL's."""
PROTOCOLS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "REQUESTED": "SSL",
    "MODERN": "SSL",
    "OLDER": "SSL",
    "SUITE": "SSL",
    "STORE": "SSL",
    "BOTH": "SASL_SSL",
}
"""Security protocols by listener."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Certificates:
    """The files of an authority. ``own`` is a client's key and certificate, ``strange`` one of another authority."""

    trusted: str
    own: str
    own_store: str
    strange: str
    server: str
    server_store: str
    trusted_store: str

    @classmethod
    def written(cls, directory: Path) -> Certificates:
        authority = trustme.CA()
        server = authority.issue_cert("localhost", "127.0.0.1")
        # Java refuses certificates whose extension for alternative names is empty.
        own = authority.issue_cert("shop.invalid", common_name=BY_CERTIFICATE)
        trusted_store = directory / "trusted.p12"
        trusted_store.write_bytes(_java_trust_store(authority))
        return cls(
            trusted=store(directory / "trusted.pem", authority.cert_pem.bytes().decode()),
            own=store(directory / "own.pem", pem_of(own)),
            own_store=pkcs12_store(directory / "own.p12", authority, own, STORE_PASSWORD),
            strange=store(directory / "strange.pem", pem_of(trustme.CA().issue_cert("shop.invalid", common_name=BY_CERTIFICATE))),
            server=store(directory / "server.pem", pem_of(server)),
            server_store=pkcs12_store(directory / "server.p12", authority, server, STORE_PASSWORD),
            trusted_store=str(trusted_store),
        )

    def context(self, own: str = "") -> ssl.SSLContext:
        """Return the TLS context of a client."""
        context = ssl.create_default_context(cafile=self.trusted)
        if own:
            context.load_cert_chain(own)
        return context


def _java_trust_store(authority: trustme.CA) -> bytes:
    """Return a PKCS12 store in which Java finds trusted certificates: it ignores certificates without its own attribute."""
    trusted = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(authority.cert_pem.bytes()), b"authority")
    return pkcs12.serialize_java_truststore([trusted], serialization.BestAvailableEncryption(STORE_PASSWORD.encode()))


def settings_of(certificates: Certificates) -> dict[str, str]:
    """Return the settings of all listeners."""
    of = "listener.name."
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.trusted,
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)(?:,.*)?$/$1/",
        f"{of}requested.ssl.client.auth": "requested",
        f"{of}modern.ssl.enabled.protocols": "TLSv1.3",
        f"{of}older.ssl.enabled.protocols": "TLSv1.2",
        f"{of}suite.ssl.cipher.suites": SUITE,
        f"{of}store.ssl.client.auth": "required",
        f"{of}store.ssl.keystore.type": "PKCS12",
        f"{of}store.ssl.keystore.location": certificates.server_store,
        f"{of}store.ssl.keystore.password": STORE_PASSWORD,
        f"{of}store.ssl.key.password": STORE_PASSWORD,
        f"{of}store.ssl.truststore.type": "PKCS12",
        f"{of}store.ssl.truststore.location": certificates.trusted_store,
        f"{of}store.ssl.truststore.password": STORE_PASSWORD,
        f"{of}both.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        f"{of}both.plain.sasl.jaas.config": f'{LOGIN}.plain.PlainLoginModule required user_{BY_PASSWORD}="{PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


@dataclass(slots=True, frozen=True)
class Running:
    """A running broker: addresses by listener."""

    certificates: Certificates
    listening: Mapping[str, str]


@contextmanager
def running(kind: str, directory: Path) -> Iterator[Running]:
    """Start ottla or Apache Kafka, and create the topics and ACLs. Skips the test without Apache Kafka."""
    certificates = Certificates.written(directory)
    start = _ottla if kind == "ottla" else _kafka
    with start(directory / kind, settings_of(certificates)) as listening:
        with KafkaClient(listening["PLAINTEXT"]) as client:
            for topic in ("orders", *TOPICS.values()):
                client.create_topic(topic, 1)
        acls = BrokerAcls(lambda: KafkaClient(listening["PLAINTEXT"]))
        acls.add(*(Acl(user, "all", topic=topic) for user, topic in TOPICS.items()))
        acls.add(Acl(BY_CERTIFICATE, "read", group="billing"), Acl(BY_CERTIFICATE, "write", transactional_id="checkout-1"))
        # kafkajs needs this permission for InitProducerId. Kafka has not required it since version 2.8.
        acls.add(Acl(BY_CERTIFICATE, "idempotent-write", cluster=True), Acl(BY_CERTIFICATE, "all", topic="orders"))
        yield Running(certificates, listening)


@contextmanager
def _ottla(directory: Path, settings: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    directory.mkdir()
    given = {
        **settings,
        "listeners": ",".join(f"{name}://localhost:0" for name in PROTOCOLS),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()),
        "ssl.client.auth": "none",
        "ssl.key.password": "",
    }
    broker = SecuredBroker(directory, given)
    try:
        yield broker.listening
    finally:
        broker.close()
    assert not [line for line in broker.logged() if line["level"] in ("error", "critical")]


@contextmanager
def _kafka(directory: Path, settings: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    ports = {name: free_port() for name in PROTOCOLS if name != "PLAINTEXT"}
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in {**PROTOCOLS, "CONTROLLER": "PLAINTEXT"}.items())
    kafka = ApacheKafka(directory, settings={**settings, "listener.security.protocol.map": protocols}, listeners=ports)
    try:
        kafka.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    try:
        yield {"PLAINTEXT": kafka.bootstrap} | {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    finally:
        kafka.stop()
