"""The period in which a certificate is valid, and the warning before its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from ottla.security.tls.distinguished_name import MalformedCertificate
from ottla.security.tls.validity import SOON_DAYS, Validity, doubt_of, validity_of
from tests.security.tls.certificates import ISSUER, KEY, certificate, common_name

BEGIN, END = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)


def encoded(begin: datetime, end: datetime) -> bytes:
    builder = x509.CertificateBuilder().subject_name(common_name("a")).issuer_name(ISSUER).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(begin).not_valid_after(end)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (BEGIN, END),
        (datetime(1950, 1, 1, tzinfo=UTC), datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (datetime(2050, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_both_asn1_time_encodings_of_certificate_validity_are_read(begin: datetime, end: datetime) -> None:
    assert validity_of(encoded(begin, end)) == (begin, end)


def test_validity_of_a_certificate_truncated_at_any_byte_is_refused() -> None:
    whole = certificate(common_name("shop")).public_bytes(serialization.Encoding.DER)
    for size in range(len(whole)):
        with pytest.raises(MalformedCertificate):
            validity_of(whole[:size])


def test_malformed_certificate_validity_times_are_refused() -> None:
    whole = encoded(BEGIN, END)
    for junk in (b"260102030405+", b"2601020304\xff5Z", b"              "):
        with pytest.raises(MalformedCertificate):
            validity_of(whole.replace(b"260102030405Z", junk[:13].ljust(13)))


@pytest.mark.parametrize(
    ("now", "doubt"),
    [
        (BEGIN - timedelta(seconds=1), "it is not valid before 2026-01-02 03:04:05 UTC"),
        (BEGIN, None),
        (END - timedelta(days=SOON_DAYS, seconds=1), None),
        (END - timedelta(days=SOON_DAYS), "it expires on 2027-01-02 03:04:05 UTC"),
        (END + timedelta(seconds=1), "it expired on 2027-01-02 03:04:05 UTC"),
    ],
)
def test_certificate_validity_warning_depends_on_the_current_time(now: datetime, doubt: str | None) -> None:
    assert doubt_of(Validity(BEGIN, END), round(now.timestamp() * 1_000)) == doubt


def test_certificate_without_expiry_causes_no_validity_warning() -> None:
    without_end = Validity(BEGIN, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
    assert doubt_of(without_end, round(END.timestamp() * 1_000)) is None
