"""Key stores of a listener that the running broker reloads or refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from structlog.testing import capture_logs

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.security_protocols import SecurityProtocol
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.network.reloading import ReloadedTls
from tests.security.tls.certificates import ISSUER, KEY, certificate, common_name, key_pem, pem, pkcs12_store

NOW_MS = 1_800_000_000_000
"""A time in the year 2027."""
NOW = datetime.fromtimestamp(NOW_MS / 1_000, UTC)
LOCATION = "listener.name.in.ssl.keystore.location"


def named(serial: int, *names: str, subject: str = "server", days_left: int | None = None) -> bytes:
    """Return a key store with a certificate of this serial number and these host names."""
    template = certificate(common_name(subject))
    builder = (
        x509.CertificateBuilder()
        .subject_name(template.subject)
        .issuer_name(ISSUER)
        .public_key(KEY.public_key())
        .serial_number(serial)
        .not_valid_before(template.not_valid_before_utc)
        .not_valid_after(template.not_valid_after_utc if days_left is None else NOW + timedelta(days=days_left))
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
    return pem(builder.sign(KEY, hashes.SHA256())) + key_pem()


class Listener:
    """A listener whose key stores are files of the test."""

    def __init__(self, directory: Path, **more: str) -> None:
        self._directory = directory
        self.given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.store("first", named(1, "a", "b"))}
        self.given |= {name.replace("_", "."): value for name, value in more.items()}
        config = BrokerConfig(self.given)
        self.tls = ReloadedTls(config, "IN", SecurityProtocol.SSL, b"secret", lambda: NOW_MS)
        self.live_config = LiveConfig(config)
        self.live_config.parts.append(self.tls)
        self.first = self.tls.context

    def store(self, name: str, data: bytes) -> str:
        path = self._directory / name
        path.write_bytes(data)
        return str(path)

    def use(self, data: bytes, name: str = "second", **more: str) -> None:
        dynamic = {LOCATION: self.store(name, data), **more}
        self.live_config.check(dynamic, dynamic)
        self.live_config.set_dynamic(dynamic, dynamic)


@pytest.fixture
def listener(tmp_path: Path) -> Listener:
    return Listener(tmp_path)


def refused(act: Callable[[], None]) -> str:
    with pytest.raises(ConfigError) as caught:
        act()
    return str(caught.value)


def test_key_store_config_change_loads_the_new_store_and_its_deletion_the_original(listener: Listener) -> None:
    with capture_logs() as lines:
        listener.use(named(2, "a", "b"))
    assert [(line["event"], line["subject"]) for line in lines] == [("key_store_loaded", "CN=server")]
    assert listener.tls.context is not listener.first
    second = listener.tls.settings
    listener.live_config.set_dynamic({}, [LOCATION])
    assert listener.tls.settings != second


def test_changed_key_store_file_is_loaded_when_the_same_config_is_set_again(listener: Listener) -> None:
    data = named(2, "a", "b")
    listener.use(data)
    second = listener.tls.context
    listener.use(data)
    assert listener.tls.context is second
    listener.use(named(3, "a", "b"))
    assert listener.tls.context is not second


def test_change_of_other_configs_does_not_load_the_key_store(listener: Listener) -> None:
    listener.store("first", b"")
    dynamic = {"log.cleaner.threads": "2", "listener.name.other.ssl.keystore.location": "/gone"}
    listener.live_config.set_dynamic(dynamic, dynamic)
    assert listener.tls.context is listener.first


def test_other_configs_can_be_changed_while_the_key_store_file_is_missing(listener: Listener, tmp_path: Path) -> None:
    listener.use(named(2, "a", "b"))
    second = listener.tls.context
    (tmp_path / "second").unlink()
    dynamic = {LOCATION: str(tmp_path / "second"), "log.cleaner.threads": "2"}
    other = ["log.cleaner.threads", "listener.name.in.max.connections", "listener.name.other.ssl.keystore.location"]
    with capture_logs() as lines:
        listener.live_config.check(dynamic, other)
        listener.live_config.set_dynamic(dynamic, other)
    assert lines == [] and listener.tls.context is second


def test_equal_pkcs12_store_does_not_replace_the_tls_context(tmp_path: Path) -> None:
    listener = Listener(tmp_path, ssl_allow_san_changes="true")
    store, of = pkcs12_store("hush"), "listener.name.in.ssl.keystore"
    more = {f"{of}.type": "PKCS12", f"{of}.password": "hush"}
    listener.use(store, **more)
    first = listener.tls.context
    with capture_logs() as lines:
        listener.use(store, **more)
    assert lines == [] and listener.tls.context is first


def test_changed_trust_store_replaces_the_tls_context_and_an_unusable_one_does_not(tmp_path: Path) -> None:
    location, store = "listener.name.in.ssl.truststore.location", tmp_path / "trusted"
    authorities = [pem(certificate(common_name(name))) for name in ("first", "second")]
    store.write_bytes(authorities[0])
    listener = Listener(tmp_path, ssl_client_auth="required", ssl_truststore_type="PEM", ssl_truststore_location=str(store))
    assert listener.first.cert_store_stats()["x509"] == 1
    dynamic = {location: str(store)}
    store.write_bytes(b"".join(authorities))
    listener.live_config.check(dynamic, dynamic)
    listener.live_config.set_dynamic(dynamic, dynamic)
    both = listener.tls.context
    assert both is not listener.first and both.cert_store_stats()["x509"] == 2
    store.write_bytes(b"junk")
    assert "ssl.truststore.location" in refused(lambda: listener.live_config.check(dynamic, dynamic))
    assert listener.tls.context is both


def test_unusable_key_store_is_refused_and_the_previous_store_is_kept(listener: Listener) -> None:
    begin = "Validation of dynamic config update of SSLFactory failed: "
    dynamic = {LOCATION: "/gone"}
    assert (
        refused(lambda: listener.live_config.check(dynamic, dynamic))
        == f"{begin}ssl.keystore.location: cannot read /gone: No such file or directory"
    )
    assert refused(lambda: listener.use(b"junk")).startswith(f"{begin}ssl.keystore.location: expected one private key")
    with capture_logs() as lines:
        listener.live_config.set_dynamic(dynamic, dynamic)
    assert [line["event"] for line in lines] == ["key_store_ignored"]
    assert listener.tls.context is listener.first


def test_reloaded_certificate_of_another_subject_is_refused_unless_allowed(listener: Listener, tmp_path: Path) -> None:
    other = named(2, "a", "b", subject="other")
    assert "Keystore DistinguishedName does not match: existing=CN=server, new=CN=other" in refused(lambda: listener.use(other))
    Listener(tmp_path, ssl_allow_dn_changes="true").use(other)


def test_reloaded_certificate_that_lacks_names_is_refused_unless_allowed(listener: Listener, tmp_path: Path) -> None:
    listener.use(named(2, "a", "b", "c"))
    fewer = named(3, "a", "b")
    assert "Keystore SubjectAlternativeNames do not match" in refused(lambda: listener.use(fewer))
    allowing = Listener(tmp_path, ssl_allow_san_changes="true")
    allowing.use(named(4, "a"))


def test_reloaded_key_store_may_be_of_another_type(tmp_path: Path) -> None:
    listener = Listener(tmp_path, ssl_allow_san_changes="true")
    of = "listener.name.in.ssl.keystore"
    listener.use(pkcs12_store("hush"), **{f"{of}.type": "PKCS12", f"{of}.password": "hush"})
    assert listener.tls.context is not listener.first


@pytest.mark.parametrize(("days_left", "reason"), [(-1, "it expired on 2027-01-14"), (29, "it expires on 2027-02-13"), (31, None)])
def test_certificate_that_is_about_to_expire_is_logged(tmp_path: Path, days_left: int, reason: str | None) -> None:
    listener = Listener(tmp_path)
    with capture_logs() as lines:
        listener.use(named(2, "a", "b", days_left=days_left))
    doubts = [(line["log_level"], line["subject"], line["reason"][: len(reason or "")]) for line in lines[1:]]
    assert doubts == ([] if reason is None else [("warning", "CN=server", reason)])


def test_expired_certificate_is_logged_at_the_start(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    listener.store("first", named(2, days_left=-400) + pem(certificate(common_name("issuer"))))
    with capture_logs() as lines:
        ReloadedTls(BrokerConfig(listener.given), "IN", SecurityProtocol.SSL, b"secret", lambda: NOW_MS)
    assert [(line["event"], line["reason"][:13]) for line in lines] == [("certificate_check_failed", "it expired on")]
    assert "listener.name.in.ssl.keystore.location" in lines[0]["hint"]
