"""Decodes keys, values and headers for display: recognises the format of bytes, or uses the format that the user has chosen.

Input may be hostile: every decoder has a size limit, and an error of a decoder becomes a text on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from ottla.client.errors import ClientError
from ottla.client.records import internal_topics
from ottla.protocol.errors import DecodeError
from ottla.protocol.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC

if TYPE_CHECKING:
    from ottla.client.schema_registry.registry_client import RegistryClient

INSPECTED_BYTES: Final = 1 << 20
"""Maximum size, in bytes, of a value that is decoded. The beginning of a larger value is shown as text or in hexadecimal."""
INT_BYTES: Final = (1, 2, 4, 8)
PLAUSIBLE_INT_BYTES: Final = (4, 8)
"""Sizes, in bytes, of integers that are recognised: those that Kafka's IntegerSerializer and LongSerializer write."""
MAX_CONTROL_RATIO: Final = 0.1
"""Maximum share of control characters in bytes that are recognised as text."""
PROBLEM_CHARACTERS: Final = 200
AUTO: Final = "auto"


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded value. ``kind`` is its format, such as ``json`` or ``hex``; ``text`` is JSON for structured formats."""

    kind: str
    text: str
    is_json: bool = False
    problem: str = ""


class RegisteredValues(Protocol):
    """Decodes values with the schemas of a schema registry. `decode` returns None for bytes without a schema id, or with an unknown
    id, and raises `ClientError` if the registry fails. `client` returns a client of the registry."""

    def decode(self, data: bytes) -> Decoded | None: ...

    def client(self) -> RegistryClient: ...


def decode(data: bytes, form: str = AUTO, registered: RegisteredValues | None = None) -> Decoded:
    """Decode bytes in the format ``form``, or in a recognised format for `AUTO`. Bytes in another format than ``form`` become
    hexadecimal, with a ``problem``."""
    if form in (AUTO, "schema"):
        problem = ""
        try:
            found = None if registered is None else registered.decode(data)
        except ClientError as error:
            found, problem = None, str(error)
        if found is not None:
            return found
        if form == "schema":
            return _hex(data, problem or "no registry has a schema for this value")
        return msgspec.structs.replace(_recognised(data), problem=problem[:PROBLEM_CHARACTERS])
    if len(data) > INSPECTED_BYTES and form not in ("text", "hex"):
        return _hex(data, f"more than {INSPECTED_BYTES:,} bytes are not decoded")
    try:
        return FORMS[form](data)
    except ImportError:
        return _hex(data, "CBOR needs cbor2; install it with pip install 'ottla[console]'")
    except Exception as error:  # each decoder raises exceptions of its own, and a hostile value must not end the page
        return _hex(data, f"not {form}: {error}")


def decode_internal(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """Decode a record of a coordinator's topic or of the metadata log. Returns None for other topics."""
    if topic != METADATA_TOPIC and topic not in INTERNAL_TOPICS:
        return None
    try:
        return internal_topics.read(topic, key, value)
    except DecodeError as error:
        return {"undecodable": str(error)}


def json_text(value: Any) -> str:
    """Encode a decoded value as JSON. Bytes become UTF-8 text or hexadecimal digits, and the keys of objects become strings."""
    return msgspec.json.encode(_plain(value)).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(_plain(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return _text_or_hex(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _text_or_hex(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex(" ")


def _recognised(data: bytes) -> Decoded:
    """Recognise the format of bytes. The order matters: a format that is unlikely to occur by chance comes first."""
    if len(data) > INSPECTED_BYTES:
        return _text_or(data, _hex)
    if data.lstrip()[:1] in (b"{", b"["):
        found = _tried(_json, data)
        if found is not None:
            return found
    text = _tried(_text, data)
    if text is not None and all(c.isprintable() or c in "\t\r\n" for c in text.text):
        return text
    if len(data) in PLAUSIBLE_INT_BYTES and data[0] in (0, 0xFF):
        return _int(data)
    for structured in (_msgpack, _cbor):
        found = _tried(structured, data)
        if found is not None and found.text[:1] in ("{", "[") and len(data) > 1:
            return found
    return _text_or(data, _hex)


def _tried(form: Callable[[bytes], Decoded], data: bytes) -> Decoded | None:
    try:
        return form(data)
    except Exception:  # each decoder raises exceptions of its own
        return None


def _text_or(data: bytes, otherwise: Callable[[bytes], Decoded]) -> Decoded:
    """Return the bytes as text if they are UTF-8 with few control characters, else the result of ``otherwise``."""
    text = _tried(_text, data)
    if text is None:
        return otherwise(data)
    control = sum(c < " " and c not in "\t\r\n" for c in text.text)
    return text if control <= MAX_CONTROL_RATIO * len(text.text) else otherwise(data)


def _json(data: bytes) -> Decoded:
    # `Raw` checks the JSON without decoding it. The producer's own text is shown, in which numbers keep all their digits.
    msgspec.json.decode(data, type=msgspec.Raw)
    return Decoded(kind="json", text=data.decode(), is_json=True)


def _text(data: bytes) -> Decoded:
    return Decoded(kind="text", text=data.decode())


def _msgpack(data: bytes) -> Decoded:
    return Decoded(kind="msgpack", text=json_text(msgspec.msgpack.decode(data)), is_json=True)


def _cbor(data: bytes) -> Decoded:
    # cbor2 is imported here, because it is optional.
    from cbor2 import CBORDecoder

    stream = BytesIO(data)
    value = CBORDecoder(stream).decode()
    if stream.tell() < len(data):
        raise ValueError("bytes follow the value")
    return Decoded(kind="cbor", text=json_text(value), is_json=True)


def _int(data: bytes) -> Decoded:
    if len(data) not in INT_BYTES:
        raise ValueError(f"an integer has 1, 2, 4 or 8 bytes, but this has {len(data):,}")
    return Decoded(kind=f"int{8 * len(data)}", text=str(int.from_bytes(data, "big", signed=True)))


def _hex(data: bytes, problem: str = "") -> Decoded:
    return Decoded(kind="hex", text=data.hex(" "), problem=problem[:PROBLEM_CHARACTERS])


FORMS: Final[Mapping[str, Callable[[bytes], Decoded]]] = {
    "json": _json,
    "text": _text,
    "msgpack": _msgpack,
    "cbor": _cbor,
    "int": _int,
    "hex": _hex,
}
CHOICES: Final = (AUTO, *FORMS, "schema")
