"""The subject of a certificate is written as Java writes it; the expected texts are those of X500Principal.getName()."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from ottla.security.tls.distinguished_name import MalformedCertificate, subject_of
from tests.security.tls.certificates import certificate, common_name


def der(*parts: tuple[x509.ObjectIdentifier, str]) -> bytes:
    name = x509.Name([x509.NameAttribute(identifier, value) for identifier, value in parts])
    return certificate(name).public_bytes(serialization.Encoding.DER)


def test_distinguished_name_begins_with_the_last_part_of_the_subject() -> None:
    parts = [
        (NameOID.DOMAIN_COMPONENT, "com"),
        (NameOID.DOMAIN_COMPONENT, "example"),
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.STATE_OR_PROVINCE_NAME, "Bavaria"),
        (NameOID.LOCALITY_NAME, "Munich"),
        (NameOID.STREET_ADDRESS, "Way 1"),
        (NameOID.ORGANIZATION_NAME, "Org"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "Unit"),
        (NameOID.USER_ID, "u1"),
        (NameOID.COMMON_NAME, "shop"),
    ]
    assert subject_of(der(*parts)) == "CN=shop,UID=u1,OU=Unit,O=Org,STREET=Way 1,L=Munich,ST=Bavaria,C=DE,DC=example,DC=com"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Org, Inc.", r"Org\, Inc."),
        ('a=b+c<d>e;f"g\\h#i', r"a\=b\+c\<d\>e\;f\"g\\h\#i"),
        (" lead and trail  ", r"\ lead and trail\ \ "),
        ("   ", r"\ \ \ "),
        ("#hash", r"\#hash"),
        ("x  y", "x  y"),
        ("zoë", "zoë"),
        ("tab\ty", "tab\ty"),
        ("nul\0x", r"nul\00x"),
    ],
)
def test_distinguished_name_is_escaped_like_in_java(name: str, text: str) -> None:
    assert subject_of(der((NameOID.COMMON_NAME, name))) == f"CN={text}"


def test_distinguished_name_shows_an_attribute_without_keyword_by_its_object_identifier() -> None:
    parts = [(NameOID.SERIAL_NUMBER, "12"), (NameOID.GIVEN_NAME, "Z"), (NameOID.EMAIL_ADDRESS, "a@b.c")]
    assert subject_of(der(*parts)) == "1.2.840.113549.1.9.1=#16056140622e63,2.5.4.42=#0c015a,2.5.4.5=#13023132"


def test_distinguished_name_joins_several_attributes_of_one_part_by_plus() -> None:
    both = [x509.NameAttribute(NameOID.COMMON_NAME, "x"), x509.NameAttribute(NameOID.USER_ID, "u1")]
    made = certificate(x509.Name([x509.RelativeDistinguishedName(both)]))
    assert subject_of(made.public_bytes(serialization.Encoding.DER)) == "CN=x+UID=u1"


def test_empty_certificate_subject_gives_an_empty_distinguished_name() -> None:
    assert subject_of(der()) == ""


def test_subject_of_a_certificate_truncated_at_any_byte_is_refused() -> None:
    whole = certificate(common_name("shop")).public_bytes(serialization.Encoding.DER)
    for size in range(len(whole)):
        with pytest.raises(MalformedCertificate):
            subject_of(whole[:size])


def test_subject_with_half_of_a_surrogate_pair_is_refused() -> None:
    attribute = x509.NameAttribute(NameOID.COMMON_NAME, "shop", _type=_ASN1Type.BMPString)
    whole = certificate(x509.Name([attribute])).public_bytes(serialization.Encoding.DER)
    assert subject_of(whole) == "CN=shop"
    with pytest.raises(MalformedCertificate):
        subject_of(whole.replace("shop".encode("utf-16-be"), b"\xd8\x00hop\0p\0"))
