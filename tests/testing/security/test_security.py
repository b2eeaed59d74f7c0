"""Security options of `Broker` objects that are not started: arguments that exclude each other, and settings of clients."""

from __future__ import annotations

import base64
import json
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla import Acl, Broker
from ottla.broker.config.sources import read_properties
from ottla.client.security.client_config import Connecting
from ottla.testing.security.broker_security import BrokerSecurity
from ottla.testing.security.client_configs import properties
from ottla.testing.security.delegation_token import DelegationToken

READ = Acl("alice", "read", topic="orders")
ALICE = {"alice": "secret"}
PASSWORD = 'a "pass\\word" for 5 € = x'


def made(directory: Path, protocol: str | None = "SASL_SSL", users: Any = ALICE, acls: Any = None) -> BrokerSecurity:
    security = BrokerSecurity(protocol, users, acls, directory=directory, host="127.0.0.1")
    security.prepare({})
    return security


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"security": "TLS"}, "security: 'TLS' is not one of PLAINTEXT, SSL, mTLS, SASL_PLAINTEXT, SASL_SSL"),
        ({"users": ALICE}, "users: clients of PLAINTEXT have no names"),
        ({"security": "SSL", "users": ALICE}, "users: clients of SSL have no names"),
        ({"security": "SSL", "acls": []}, "acls: clients of SSL have no names"),
        ({"security": "mTLS", "users": ALICE}, "clients of mTLS have certificates, not passwords"),
        ({"security": "SASL_SSL", "users": ALICE, "acls": ["alice read orders"]}, "acls: give Acl values"),
        ({"security": "mTLS", "users": "alice"}, "clients of mTLS have certificates, not passwords; give names"),
        ({"security": "SASL_PLAINTEXT", "users": ["alice"]}, "users: give a password for each name"),
        ({"security": "SASL_PLAINTEXT", "users": {"alice": ""}}, "users: give a password for each name"),
        ({"security": "SASL_PLAINTEXT", "users": {"a:b": "x"}}, "'a:b' has a colon in the name"),
    ],
)
def test_broker_security_arguments_that_exclude_each_other_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Broker(**given)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"topic": "t", "group": "g"}, "give one of topic="),
        ({}, "give one of topic="),
        ({"topic": "t", "operation": "reed"}, "'reed' is not an operation"),
        ({"topic": "t", "principal": "User:"}, "is not a principal"),
    ],
)
def test_acl_with_unknown_operation_or_principal_or_two_resources_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Acl(**{"principal": "alice", "operation": "read", **arguments})


def test_tls_broker_without_cryptography_package_names_the_security_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cryptography", "cryptography.hazmat.primitives.asymmetric"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'ottla\[security\]'"):
        Broker(security="SSL")
    Broker(security="SASL_PLAINTEXT", users=ALICE)


@pytest.mark.parametrize("protocol", ["SSL", "mTLS", "SASL_PLAINTEXT", "SASL_SSL"])
def test_client_of_a_secured_broker_uses_the_written_client_properties(tmp_path: Path, protocol: str) -> None:
    security = made(tmp_path, protocol, None)
    connecting = security.connecting("127.0.0.1:9092")
    assert connecting is not None
    assert connecting.protocol == security.protocol
    file = security.client_properties("127.0.0.1:9092", None, None)
    assert Connecting.parse(read_properties(file.read_text()), prefix="") == connecting
    assert file.stat().st_mode & 0o077 == 0


def test_client_config_has_sasl_settings_in_the_format_of_each_client(tmp_path: Path) -> None:
    security = made(tmp_path, "SASL_SSL", {"alice": PASSWORD})
    configs = {
        client: security.client_config("127.0.0.1:9092", client, "alice", None, None)
        for client in ("confluent", "kafka-python", "aiokafka", "java", "franz-go", "sarama", "kafkajs")
    }
    assert configs["confluent"]["sasl.password"] == PASSWORD
    assert configs["kafka-python"]["sasl_plain_password"] == configs["aiokafka"]["sasl_plain_password"] == PASSWORD
    assert isinstance(configs["aiokafka"]["ssl_context"], ssl.SSLContext)
    sasl = Connecting.parse(configs["java"], prefix="").sasl
    assert sasl is not None
    assert (sasl.username, sasl.password.text, sasl.mechanism) == ("alice", PASSWORD, "SCRAM-SHA-512")
    assert configs["franz-go"] == configs["sarama"]
    assert configs["kafkajs"]["sasl"]["mechanism"] == "scram-sha-512"
    assert configs["kafkajs"]["ssl"]["ca"][0].startswith("-----BEGIN CERTIFICATE-----")


def test_each_mtls_client_has_its_own_certificate(tmp_path: Path) -> None:
    security = made(tmp_path, "mTLS", ["alice"])
    alice, again, bob = (security.client_config("h:1", "java", name, None, None) for name in ("alice", "alice", "bob"))
    assert alice == again
    assert alice["ssl.keystore.location"] != bob["ssl.keystore.location"]
    assert "sasl.mechanism" not in alice


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("librdkafka", None, None, None), "client: 'librdkafka' is not one of java, confluent"),
        (("java", "bob", None, None), "unknown user 'bob'; the users of this broker are alice"),
        (("java", "alice", "SCRAM", None), "mechanism: 'SCRAM' is not one of PLAIN"),
        (("java", "alice", "OAUTHBEARER", None), "'OAUTHBEARER' is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; give settings="),
        (("java", None, "SCRAM-SHA-256", None), "without user= only PLAIN is possible"),
    ],
)
def test_unusable_arguments_of_client_config_are_refused(tmp_path: Path, arguments: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made(tmp_path).client_config("h:1", *arguments)


def test_client_config_has_tokens_where_oauthbearer_is_enabled(tmp_path: Path) -> None:
    security = made(tmp_path, "SASL_PLAINTEXT", {"alice": PASSWORD})
    with pytest.raises(ValueError, match="add PLAIN"):
        security.prepare({"sasl.enabled.mechanisms": "OAUTHBEARER"})
    security.prepare({"sasl.enabled.mechanisms": "OAUTHBEARER, PLAIN"})
    configs = {
        client: security.client_config("h:1", client, "carol", "OAUTHBEARER", None) for client in ("java", "franz-go", "kafkajs")
    }
    assert configs["java"]["sasl.jaas.config"].endswith('OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="carol";')
    for client in ("franz-go", "kafkajs"):
        header, claims, signature = configs[client]["sasl"]["token"].split(".")
        assert json.loads(base64.urlsafe_b64decode(claims + "=="))["sub"] == "carol"
        assert (json.loads(base64.urlsafe_b64decode(header + "==")), signature) == ({"alg": "none"}, "")
    for arguments in ((None, "OAUTHBEARER", None), ("a b", "OAUTHBEARER", None), ("carol", "OAUTHBEARER", "hush")):
        with pytest.raises(ValueError, match="a name without spaces"):
            security.client_config("h:1", "java", *arguments)
    with pytest.raises(ValueError, match="'SCRAM-SHA-512' is not one of OAUTHBEARER, PLAIN"):
        security.client_config("h:1", "java", "alice", "SCRAM-SHA-512", None)


TOKEN = DelegationToken(token_id="id-1", hmac="aHVzaA==", owner="alice", expires_ms=0)


def test_client_config_has_the_delegation_token_where_the_client_supports_it(tmp_path: Path) -> None:
    security = made(tmp_path, "SASL_SSL")
    java = security.client_config("h:1", "java", None, None, None, TOKEN)
    assert java["sasl.mechanism"] == "SCRAM-SHA-512"
    assert java["sasl.jaas.config"].endswith(' username="id-1" password="aHVzaA==" tokenauth="true";')
    sasl = Connecting.parse(java, prefix="").sasl
    assert sasl is not None
    assert (sasl.username, sasl.password.text, sasl.is_delegated) == ("id-1", "aHVzaA==", True)
    go = security.client_config("h:1", "franz-go", None, "SCRAM-SHA-256", None, TOKEN)
    assert go["sasl"] == {"mechanism": "SCRAM-SHA-256", "user": "id-1", "password": "aHVzaA==", "isToken": True}
    file = security.client_properties("h:1", None, None, TOKEN)
    assert read_properties(file.read_text()) == java
    assert "aHVzaA==" not in repr(TOKEN)


@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka", "sarama", "kafkajs"])
def test_client_library_without_delegation_tokens_is_refused_in_one_line(tmp_path: Path, client: str) -> None:
    with pytest.raises(ValueError, match=f"^token: {client} cannot authenticate by a delegation token; .* are java and franz-go$"):
        made(tmp_path).client_config("h:1", client, None, None, None, TOKEN)


@pytest.mark.parametrize(
    ("protocol", "arguments", "says"),
    [
        ("SASL_SSL", ("alice", None, None), "a delegation token replaces user= and password="),
        ("SASL_SSL", (None, None, "x"), "a delegation token replaces user= and password="),
        ("SASL_SSL", (None, "PLAIN", None), r"need SCRAM-SHA-256 or SCRAM-SHA-512, not 'PLAIN'"),
        ("SSL", (None, None, None), "clients of SSL have no delegation tokens; give security='SASL_SSL' or"),
        ("mTLS", (None, None, None), "clients of mTLS have no delegation tokens"),
        (None, (None, None, None), "clients of PLAINTEXT have no delegation tokens"),
    ],
)
def test_unusable_arguments_with_a_delegation_token_are_refused(
    tmp_path: Path, protocol: str | None, arguments: Any, says: str
) -> None:
    security = made(tmp_path, protocol, ALICE if protocol == "SASL_SSL" else None)
    with pytest.raises(ValueError, match=says):
        security.client_config("h:1", "java", *arguments, TOKEN)


def test_delegation_token_of_an_unknown_user_or_without_sasl_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown user 'bob'; the users of this broker are alice"):
        Broker(security="SASL_PLAINTEXT", users=ALICE).delegation_token("bob")
    with pytest.raises(ValueError, match="clients of PLAINTEXT have no delegation tokens"):
        Broker().delegation_token("alice")


def test_client_config_for_a_broker_without_security_sets_plaintext(tmp_path: Path) -> None:
    security = made(tmp_path, None, None)
    assert security.client_config("h:1", "confluent", None, None, None) == {
        "bootstrap.servers": "h:1",
        "security.protocol": "PLAINTEXT",
    }
    assert security.connecting("h:1") is None
    with pytest.raises(ValueError, match="leave user= out"):
        security.client_config("h:1", "java", "alice", None, None)


def test_passwords_are_neither_in_broker_arguments_nor_in_repr(tmp_path: Path) -> None:
    security = BrokerSecurity("SASL_SSL", {"alice": PASSWORD}, [READ], directory=tmp_path, host="127.0.0.1")
    assert PASSWORD not in " ".join(security.prepare({}))
    assert PASSWORD not in repr(security)
    for file in (tmp_path / "security").iterdir():
        assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("value", ["plain", PASSWORD, "tab\tline\nbreak", "ü€"])
def test_written_java_properties_are_read_back_unchanged(value: str) -> None:
    assert read_properties(properties({"key": value})) == {"key": value}
