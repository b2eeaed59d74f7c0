"""Key stores are read in Kafka's formats, and errors say what to do and contain no password."""

from __future__ import annotations

import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from ottla.security.tls.key_stores import (
    KeyStoreError,
    certificates_of_pem,
    certificates_of_store,
    from_pem,
    from_store,
)
from tests.security.tls.certificates import certificate, common_name, key_pem, pem, pkcs12_store

OWN, AUTHORITY = pem(certificate(common_name("server"))), pem(certificate(common_name("authority")))
OLD_FORM = serialization.PrivateFormat.TraditionalOpenSSL


@pytest.mark.parametrize(
    "text",
    [key_pem() + OWN + AUTHORITY, OWN + key_pem() + AUTHORITY, OWN + AUTHORITY + b"comment\n" + key_pem()],
    ids=["first", "between", "last"],
)
def test_private_key_is_found_anywhere_in_a_pem_file(text: bytes) -> None:
    keys = from_pem(text, None)
    assert (keys.chain, keys.key, keys.password) == (OWN + AUTHORITY, key_pem(), None)


@pytest.mark.parametrize("form", [serialization.PrivateFormat.PKCS8, OLD_FORM])
def test_encrypted_private_key_needs_its_password(form: serialization.PrivateFormat) -> None:
    text = key_pem("hush", form) + OWN
    assert from_pem(text, "hush").password == b"hush"
    with pytest.raises(KeyStoreError, match=r"the private key is encrypted; give its password in ssl\.key\.password"):
        from_pem(text, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "expected one private key in PEM, found 0"),
        (OWN, "expected one private key in PEM, found 0"),
        (key_pem() + key_pem() + OWN, "expected one private key in PEM, found 2"),
        (key_pem(), "found no certificate"),
        (b"-----BEGIN CERTIFICATE-----", "expected one private key"),
    ],
    ids=["empty", "no key", "two keys", "no certificate", "incomplete"],
)
def test_incomplete_pem_key_store_is_refused(text: bytes, says: str) -> None:
    with pytest.raises(KeyStoreError, match=says):
        from_pem(text, None)


def test_trust_store_in_pem_ignores_blocks_that_are_no_certificates() -> None:
    assert certificates_of_pem(key_pem() + OWN + AUTHORITY) == OWN + AUTHORITY
    with pytest.raises(KeyStoreError, match="found none"):
        certificates_of_pem(key_pem())


def test_certificate_chain_of_a_pkcs12_store_is_ordered_from_the_server_upwards() -> None:
    keys = from_store(pkcs12_store("hush"), "a.p12", "hush", b"secret")
    chain = x509.load_pem_x509_certificates(keys.chain)
    assert [made.subject for made in chain] == [common_name("server"), common_name("lower"), common_name("upper")]


def test_private_key_read_from_a_pkcs12_store_is_returned_encrypted() -> None:
    keys = from_store(pkcs12_store("hush"), "a.p12", "hush", b"secret")
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in keys.key and keys.password == b"secret"
    assert serialization.load_pem_private_key(keys.key, b"secret") is not None
    assert "secret" not in repr(keys)


def test_trusted_certificates_of_a_pkcs12_store_are_found() -> None:
    trusted = x509.load_pem_x509_certificates(certificates_of_store(pkcs12_store("hush", with_key=False), "t.p12", "hush"))
    assert {made.subject for made in trusted} == {common_name("lower"), common_name("upper")}


def test_wrong_pkcs12_password_is_refused_without_showing_it() -> None:
    with pytest.raises(KeyStoreError, match="the password is wrong") as caught:
        from_store(pkcs12_store("hush"), "a.p12", "hashed", b"secret")
    assert "hashed" not in str(caught.value)


def test_key_store_without_a_private_key_is_refused() -> None:
    with pytest.raises(KeyStoreError, match="no private key with a certificate"):
        from_store(pkcs12_store("hush", with_key=False), "a.p12", "hush", b"secret")


@pytest.mark.parametrize("magic", [b"\xfe\xed\xfe\xed\0\0\0\2", b"\xce\xce\xce\xce\0\0\0\2"])
def test_jks_key_store_is_refused_with_the_command_that_converts_it(magic: bytes) -> None:
    with pytest.raises(KeyStoreError, match=r"keytool -importkeystore -srckeystore a\.jks -destkeystore a\.jks\.p12"):
        from_store(magic, "a.jks", "hush", b"secret")


@pytest.mark.parametrize("data", [b"", b"-----BEGIN", b"\x30\x03abc"])
def test_key_store_file_that_is_not_pkcs12_is_refused(data: bytes) -> None:
    with pytest.raises(KeyStoreError, match="the file is not a PKCS12 file"):
        certificates_of_store(data, "a.p12", "hush")


def test_key_store_error_names_the_missing_package_and_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    store = pkcs12_store("hush")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(KeyStoreError, match=r"PKCS12 needs the package cryptography; install ottla\[security\], or give PEM"):
        from_store(store, "a.p12", "hush", b"secret")
