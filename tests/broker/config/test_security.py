"""The security settings of listeners: Kafka's prefixes and checks, and errors that name the key and contain no secret."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.node_security import node_security
from ottla.broker.config.security import sasl_settings, tls_settings
from ottla.broker.config.security_protocols import SecurityProtocol, security_protocols
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.config.sources import from_environment
from ottla.client.security.client_config import Secret, TokenEndpoint
from ottla.security.sasl.unsecured_tokens import UnsecuredTokens
from tests.pages.blocks import blocks
from tests.security.tls.certificates import certificate, common_name, key_pem, pem, pkcs12_store

NOW_MS = 1_700_000_000_000
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hush";'
PLAIN_JAAS = {"listener.name.in.plain.sasl.jaas.config": JAAS}
BEARER_JAAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
BEARER = {"listener.name.in.oauthbearer.sasl.jaas.config": BEARER_JAAS, "sasl.enabled.mechanisms": "OAUTHBEARER"}
JWKS = {"sasl.oauthbearer.jwks.endpoint.url": "file:/keys"}
OWN = pem(certificate(common_name("server")))
KEYS = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": key_pem().decode(),
    "ssl.keystore.certificate.chain": OWN.decode(),
}


def sasl(given: dict[str, str]) -> Any:
    return sasl_settings(BrokerConfig(given), "IN")


def tls(given: dict[str, str], protocol: SecurityProtocol = SecurityProtocol.SSL) -> Any:
    return tls_settings(BrokerConfig(given), "IN", protocol, b"secret")


def test_listener_security_protocol_map_ignores_case() -> None:
    protocols = security_protocols("in:sasl_ssl, OUT:Plaintext")
    assert protocols == {"IN": SecurityProtocol.SASL_SSL, "OUT": SecurityProtocol.PLAINTEXT}


def test_inter_broker_listener_is_set_by_name_or_protocol_but_not_both() -> None:
    with pytest.raises(ConfigError, match=r"Only one of inter\.broker\.listener\.name and security\.inter\.broker\.protocol"):
        BrokerConfig({"inter.broker.listener.name": "IN", "security.inter.broker.protocol": "SSL"})


def test_sasl_mechanism_gets_the_users_of_its_login_module() -> None:
    settings = sasl({**PLAIN_JAAS, "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN"})
    assert list(settings.modules) == ["SCRAM-SHA-512", "PLAIN"]
    assert settings.modules["PLAIN"].users == {"alice": "hush"}
    assert settings.max_receive_bytes == 524_288
    assert settings.key_set is None


def test_config_with_the_most_specific_listener_prefix_takes_precedence() -> None:
    given = {
        **PLAIN_JAAS,
        "listener.name.in.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "connections.max.reauth.ms": "3000",
        "listener.name.in.plain.connections.max.reauth.ms": "1000",
        "listener.name.other.connections.max.reauth.ms": "9",
    }
    assert sasl(given).max_session_ms == {"PLAIN": 1_000, "SCRAM-SHA-256": 3_000}


def test_environment_variable_may_set_a_config_with_a_listener_prefix() -> None:
    values, ignored = from_environment({"KAFKA_LISTENER_NAME_SASL__SSL_SCRAM___SHA___256_SASL_JAAS_CONFIG": "x"})
    assert (values, ignored) == ({"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": "x"}, [])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "sasl.enabled.mechanisms is not set, and GSSAPI, Kafka's default, is not supported; give some of PLAIN"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms: GSSAPI is not supported; give some of PLAIN"),
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "DIGEST-MD5 is not supported"),
        ({"sasl.enabled.mechanisms": ""}, "the listener IN needs a mechanism"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "listener.name.in.plain.sasl.jaas.config is not set; give"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, 'OAuthBearerLoginModule required;"'),
        ({"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": JAAS}, "listener.name.in.plain.sasl.jaas.config is not set"),
        ({"sasl.enabled.mechanisms": "PLAIN", "listener.name.in.plain.sasl.jaas.config": "x"}, "control flag not specified"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "listener.name.in.plain.sasl.jaas.config": "x.Y required;"},
            "the login module of PLAIN is org.apache",
        ),
        ({**BEARER, **JWKS}, "sasl.oauthbearer.expected.audience is not set"),
        ({**BEARER, **JWKS, "sasl.oauthbearer.expected.audience": "kafka"}, "sasl.oauthbearer.expected.issuer is not set"),
        (
            {
                **PLAIN_JAAS,
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.in.plain.sasl.server.callback.handler.class": "my.Own",
            },
            "my.Own of PLAIN is not supported; leave it out",
        ),
        ({**BEARER, "sasl.server.callback.handler.class": "my.Handler"}, "my.Handler is not supported"),
        (
            {
                **BEARER,
                "listener.name.in.oauthbearer.sasl.server.callback.handler.class": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
                ),
            },
            "sasl.oauthbearer.jwks.endpoint.url is not set",
        ),
    ],
)
def test_unusable_sasl_settings_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sasl(given)
    assert says in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("name", ["sasl.kerberos.service.name", "listener.name.in.gssapi.sasl.kerberos.service.name"])
def test_sasl_mechanism_gssapi_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"Kerberos \(GSSAPI\) is not supported; leave it out"):
        BrokerConfig({name: "kafka"})
    with pytest.raises(ConfigError, match="Kerberos"):
        BrokerConfig({}).with_dynamic({"sasl.kerberos.service.name": "kafka"})


def test_settings_for_signed_oauth_tokens_need_an_audience_and_an_issuer() -> None:
    expected = {"sasl.oauthbearer.expected.audience": "a,b", "sasl.oauthbearer.expected.issuer": "https://id"}
    key_set = sasl({**BEARER, **JWKS, **expected}).key_set
    assert (key_set.terms.audiences, key_set.terms.issuer, key_set.terms.skew_ms) == (("a", "b"), "https://id", 30_000)
    opened = {f"sasl.oauthbearer.allow.unverified.{name}": "true" for name in ("audience", "issuer")}
    key_set = sasl({**BEARER, **JWKS, **opened}).key_set
    assert (key_set.terms.audiences, key_set.terms.issuer) == ((), None)


def test_tls_keys_may_be_inline_pem() -> None:
    settings = tls(KEYS)
    assert (settings.keys.chain, settings.trusted, settings.client_auth) == (OWN, None, "none")
    assert settings.protocols == ("TLSv1.2", "TLSv1.3")


def test_tls_keys_and_certificates_may_be_files(tmp_path: Path) -> None:
    both, trusted, store = tmp_path / "both.pem", tmp_path / "ca.pem", tmp_path / "server.p12"
    both.write_bytes(key_pem("hush") + OWN)
    trusted.write_bytes(OWN)
    store.write_bytes(pkcs12_store("hush"))
    in_pem = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both), "ssl.key.password": "hush"}
    trusting = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trusted), "ssl.client.auth": "required"}
    settings = tls({**in_pem, **trusting})
    assert (settings.keys.password, settings.trusted, settings.client_auth) == (b"hush", OWN, "required")
    # If the store type is JKS, its default, Java also reads PKCS12 files.
    for kind in ({"ssl.keystore.type": "PKCS12"}, {"ssl.keystore.type": "JKS"}, {}):
        settings = tls({**kind, "ssl.keystore.location": str(store), "ssl.keystore.password": "hush"})
        assert settings.keys.chain.count(b"BEGIN CERTIFICATE") == 3


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on the PATH")
def test_certificate_made_as_documented_on_the_security_page_is_usable_as_key_store(tmp_path: Path) -> None:
    (block,) = [block for block in blocks("docs/security.md") if block.text.startswith("openssl req")]
    subprocess.run(["sh", "-ec", block.text], cwd=tmp_path, check=True, capture_output=True)
    settings = tls({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "server.pem")})
    (chain,) = x509.load_pem_x509_certificates(settings.keys.chain)
    names = chain.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert chain.public_bytes(Encoding.PEM) == (tmp_path / "ca.pem").read_bytes()


def test_sasl_ssl_listener_requires_client_certificates_only_if_its_prefixed_config_does() -> None:
    assert tls({**KEYS, "ssl.client.auth": "required"}, SecurityProtocol.SASL_SSL).client_auth == "none"
    prefixed = {**KEYS, "listener.name.in.ssl.client.auth": "required"}
    assert tls(prefixed, SecurityProtocol.SASL_SSL).client_auth == "required"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "listeners: IN needs a certificate for TLS; give ssl.keystore.location"),
        ({"ssl.keystore.location": "/nowhere", "ssl.keystore.password": "hush"}, "cannot read /nowhere: No such file"),
        ({"ssl.keystore.location": __file__}, "SSL key store is specified, but key store password is not specified."),
        ({"ssl.keystore.location": __file__, "ssl.keystore.password": "hush"}, "the file is not a PKCS12 file"),
        ({"ssl.keystore.type": "BCFKS"}, "ssl.keystore.type: BCFKS is not supported; give one of PEM, PKCS12, JKS"),
        (
            {**KEYS, "ssl.keystore.type": "JKS"},
            "SSL private key can be specified only for PEM, but key store type is JKS. Give ssl.keystore.type=PEM",
        ),
        ({**KEYS, "ssl.keystore.location": "/x"}, "Both SSL key store location and separate private key are specified."),
        ({**KEYS, "ssl.keystore.password": "hush"}, "SSL key store password cannot be specified with PEM format"),
        ({**KEYS, "ssl.keystore.key": ""}, "ssl.keystore.key is not set"),
        ({**KEYS, "ssl.keystore.key": key_pem("hush").decode()}, "the private key is encrypted; give its password"),
        ({**KEYS, "ssl.truststore.certificates": OWN.decode()}, "but trust store type is JKS. Give ssl.truststore.type=PEM"),
        ({**KEYS, "ssl.truststore.type": "PEM", "ssl.truststore.certificates": "x"}, "expected trusted certificates in PEM"),
        ({**KEYS, "ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.1 is not supported; give TLSv1.2 or TLSv1.3"),
        ({**KEYS, "ssl.principal.mapping.rules": "default"}, "ssl.principal.mapping.rules: Invalid rule"),
    ],
)
def test_unusable_tls_settings_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tls(given)
    assert says in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("kind", [{}, {"ssl.keystore.type": "PKCS12"}])
@pytest.mark.parametrize("password", [{}, {"ssl.keystore.password": "hush"}])
def test_pem_file_with_another_store_type_is_refused_with_the_type_to_set(
    kind: dict[str, str], password: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "server.pem"
    path.write_bytes(b"subject=server\n" + key_pem() + OWN)
    with pytest.raises(ConfigError, match=rf"ssl\.keystore\.location: {path} is PEM.*; give ssl\.keystore\.type=PEM"):
        tls({**kind, **password, "ssl.keystore.location": str(path)})
    with pytest.raises(ConfigError, match=rf"ssl\.truststore\.location: {path} is PEM.*; give ssl\.truststore\.type=PEM"):
        tls({**KEYS, "ssl.truststore.location": str(path)})


LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="hush" user_admin="hush";'
NODES = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.in.plain.sasl.jaas.config": LOGIN,
    "listener.name.in.ssl.truststore.type": "PEM",
    "listener.name.in.ssl.truststore.certificates": OWN.decode(),
}


TOKEN_JAAS, ENDPOINT = "listener.name.in.oauthbearer.sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url"
TOKENS = {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}
CREDENTIALS = "sasl.oauthbearer.client.credentials"
CLIENT = 'a.B required clientId="node" clientSecret="hush" scope="kafka";'


def test_unsecured_oauth_token_of_a_broker_is_accepted_by_other_brokers() -> None:
    jaas = (
        'a.B required unsecuredLoginStringClaim_sub="admin" unsecuredLoginListClaim_scope=",a,b" unsecuredLoginNumberClaim_n="7";'
    )
    sasl = between({**TOKENS, TOKEN_JAAS: jaas}, SecurityProtocol.SASL_PLAINTEXT).sasl
    token = sasl.token()
    validated = UnsecuredTokens({"unsecuredValidatorRequiredScope": "a"}).validated(token.value.text, NOW_MS)
    assert (validated.principal, validated.expires_ms) == ("admin", round(token.expires_s * 1_000))


@pytest.mark.parametrize(
    "given",
    [{TOKEN_JAAS: CLIENT}, {"sasl.oauthbearer.client.credentials.client.id": "node", TOKEN_JAAS: CLIENT.replace("node", "x")}],
)
def test_broker_gets_oauth_tokens_for_its_own_connections_from_an_endpoint(given: dict[str, str]) -> None:
    sasl = between({**TOKENS, ENDPOINT: "https://host/token", **given}, SecurityProtocol.SASL_PLAINTEXT).sasl
    assert sasl.token == TokenEndpoint("https://host/token", "node", Secret("hush"), "kafka", prefix="")


def between(given: dict[str, str], protocol: SecurityProtocol = SecurityProtocol.SASL_SSL) -> Any:
    return node_security(
        BrokerConfig(given), "IN", protocol, "sasl.mechanism.inter.broker.protocol", b"secret", lambda: NOW_MS / 1_000
    )


def test_broker_connects_to_other_brokers_with_settings_of_the_inter_broker_listener() -> None:
    connecting = between({**NODES, "listener.name.in.ssl.enabled.protocols": "TLSv1.3"})
    assert (connecting.sasl.mechanism, connecting.sasl.username, connecting.sasl.password.text) == ("PLAIN", "admin", "hush")
    assert (connecting.tls.trusted.text.text.strip(), connecting.tls.certificate) == (OWN.decode().strip(), None)
    assert (connecting.tls.versions, connecting.tls.checks_hostname) == (("TLSv1.3",), True)
    suites = between({**NODES, "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384"}).tls.cipher_suites
    assert suites == ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384")
    assert not between({**NODES, "ssl.endpoint.identification.algorithm": ""}).tls.checks_hostname
    assert "hush" not in repr(connecting)


def test_broker_presents_its_key_store_certificate_to_other_brokers() -> None:
    connecting = between({**KEYS, "ssl.truststore.type": "PEM"}, SecurityProtocol.SSL)
    assert connecting.sasl is None
    assert connecting.tls.certificate.text.text == OWN.decode()
    assert "PRIVATE KEY" in connecting.tls.key.text.text


def test_key_store_that_is_not_ascii_is_refused() -> None:
    damaged = OWN.decode().replace("-----\nMI", "-----\nMé", 1)
    given = {**KEYS, "ssl.truststore.type": "PEM", "ssl.truststore.certificates": damaged}
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location: the PEM block has byte 0xc3, which is not ASCII"):
        between(given, SecurityProtocol.SSL)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "sasl.mechanism.inter.broker.protocol: GSSAPI is not supported between nodes; give one of PLAIN"),
        ({**TOKENS, TOKEN_JAAS: "a.B required;"}, "no principal name is set; give unsecuredLoginStringClaim_sub"),
        (
            {**TOKENS, TOKEN_JAAS: 'a.B required unsecuredLoginStringClaim_sub="a" unsecuredLoginLifetimeSeconds="x";'},
            "not a number",
        ),
        ({**TOKENS, ENDPOINT: "https://host/token"}, f"give both, or {CREDENTIALS}.client.id and {CREDENTIALS}.client.secret"),
        ({**TOKENS, ENDPOINT: "host", TOKEN_JAAS: CLIENT}, "sasl.oauthbearer.token.endpoint.url"),
        (
            {**NODES, "sasl.enabled.mechanisms": "SCRAM-SHA-512"},
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used",
        ),
        ({**NODES, **PLAIN_JAAS}, "listener.name.in.plain.sasl.jaas.config has no username and password"),
        ({**NODES, "ssl.endpoint.identification.algorithm": "LDAPS"}, "LDAPS is not supported; give https, or nothing"),
    ],
)
def test_unusable_inter_broker_security_settings_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        between(given)
    assert says in str(caught.value)
    assert "hush" not in str(caught.value)
