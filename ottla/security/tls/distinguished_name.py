"""The subject of a certificate as text (RFC 2253), as Java writes it (javax.security.auth.x500.X500Principal.getName), and its
alternative names.

Principals and ACLs contain this text, so it must be the same as Kafka's to the letter. Python's ssl module has no such text, and
libraries escape other characters.
"""

from __future__ import annotations

from collections.abc import Iterator

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that have a keyword in RFC 2253. All other attributes are written as numbers, with hexadecimal values."""
_ENCODINGS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}
"""The encodings of the string types of ASN.1, by tag."""
_ESCAPED = frozenset(',=+<>#;"\\')
_SEQUENCE, _EXPLICIT_VERSION, _EXTENSIONS = 0x30, 0xA0, 0xA3
_ALTERNATIVE_NAMES = b"\x55\x1d\x11"
"""The object identifier 2.5.29.17 of the extension subjectAltName."""


class MalformedCertificate(ValueError):
    """A certificate whose subject cannot be read."""


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER. Raises `MalformedCertificate`."""
    try:
        fields = fields_of(certificate)
        # Serial number, signature algorithm, issuer and validity come before the subject.
        name = fields[4][1]
        return ",".join(_relative_name(relative) for _, relative, _ in reversed([*elements_of(name)]))
    except (IndexError, StopIteration, ValueError) as error:
        raise MalformedCertificate(str(error)) from None


def alternative_names_of(certificate: bytes) -> frozenset[bytes]:
    """The encoded subject alternative names of a certificate in DER. Raises `MalformedCertificate`."""
    try:
        for tag, content, _ in fields_of(certificate):
            if tag != _EXTENSIONS:
                continue
            for _, extension, _ in elements_of(next(elements_of(content))[1]):
                identifier, *_, value = elements_of(extension)
                if identifier[1] == _ALTERNATIVE_NAMES:
                    return frozenset(encoded for _, _, encoded in elements_of(next(elements_of(value[1]))[1]))
    except (IndexError, StopIteration, ValueError) as error:
        raise MalformedCertificate(str(error)) from None
    return frozenset()


def fields_of(certificate: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return the fields of a certificate's signed part, without the version."""
    signed = next(elements_of(next(elements_of(certificate))[1]))[1]
    return [field for field in elements_of(signed) if field[0] != _EXPLICIT_VERSION]


def elements_of(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Return tag, content and whole encoding of each element of ASN.1 DER."""
    at = 0
    while at < len(data):
        start, tag, length = at, data[at], data[at + 1]
        at += 2
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + length > len(data):
            raise MalformedCertificate("an element ends too early")
        yield tag, data[at : at + length], data[start : at + length]
        at += length


def _relative_name(relative: bytes) -> str:
    return "+".join(_attribute(attribute) for _, attribute, _ in elements_of(relative))


def _attribute(attribute: bytes) -> str:
    (_, identifier, _), (tag, value, encoded) = elements_of(attribute)
    number = _object_identifier(identifier)
    keyword, encoding = _KEYWORDS.get(number), _ENCODINGS.get(tag)
    if keyword is None or encoding is None:
        return f"{keyword or number}=#{encoded.hex()}"
    return f"{keyword}={_escaped(value.decode(encoding))}"


def _object_identifier(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{c}" if c in _ESCAPED else "\\00" if c == "\0" else c for c in text)
    bare = escaped.strip(" \r")
    lead = len(escaped) - len(escaped.lstrip(" \r"))
    if not bare:
        return "".join(f"\\{c}" for c in escaped)
    trail = escaped[lead + len(bare) :]
    return "".join(f"\\{c}" for c in escaped[:lead]) + bare + "".join(f"\\{c}" for c in trail)
