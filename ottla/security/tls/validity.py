"""The time in which a certificate is valid, read from its DER encoding, because Python's ssl module parses trusted certificates
only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ottla.security.tls.distinguished_name import MalformedCertificate, elements_of, fields_of

SOON_DAYS = 30
"""A certificate that expires within this number of days should be replaced."""
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18


class Validity(NamedTuple):
    """The times between which a certificate is valid."""

    begin: datetime
    end: datetime


def validity_of(certificate: bytes) -> Validity:
    """The validity of a certificate in DER. Raises `MalformedCertificate`."""
    try:
        # Serial number, signature algorithm and issuer come before the validity.
        begin, end = (_time(tag, content.decode("ascii")) for tag, content, _ in elements_of(fields_of(certificate)[3][1]))
    except (IndexError, StopIteration, ValueError) as error:
        raise MalformedCertificate(str(error)) from None
    return Validity(begin, end)


def _time(tag: int, text: str) -> datetime:
    """Parse a time of RFC 5280, section 4.1.2.5: years from 50 on of a UTCTime belong to the twentieth century."""
    if tag == _UTC_TIME:
        text = f"{19 if text >= '50' else 20}{text}"
    elif tag != _GENERALIZED_TIME:
        raise MalformedCertificate(f"{tag:#x} is not the tag of a time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def doubt_of(validity: Validity, now_ms: int) -> str | None:
    """Return why clients refuse the certificate, or will refuse it soon; None if they accept it."""
    now = datetime.fromtimestamp(now_ms / 1_000, UTC)
    if now < validity.begin:
        return f"it is not valid before {_text(validity.begin)}"
    if now > validity.end:
        return f"it expired on {_text(validity.end)}"
    # Adding days to ``now`` or ``end`` could overflow: a certificate without expiry ends in the last second of the year 9999.
    return f"it expires on {_text(validity.end)}" if validity.end - now <= timedelta(days=SOON_DAYS) else None


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")
