"""Generated codecs are compared with their schemas, and byte for byte with kio and kafka-python."""

from __future__ import annotations

import io
import pkgutil
import warnings
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol import messages
from ottla.protocol.codec import api, decode_body
from ottla.protocol.codegen.__main__ import schemas, sources
from ottla.protocol.codegen.schema import Schema, Section
from ottla.protocol.errors import Code, DecodeError, KafkaError
from ottla.protocol.primitives import string, uvarint
from tests.protocol.messages import MessageMaker, module_of

SEEDS = range(4)
MESSAGES = [pytest.param(schema, section, id=section.name) for schema in schemas() for section in schema.sections]


def coders(schema: Schema, section: Section) -> tuple[Any, Any]:
    module = module_of(schema)
    if not schema.is_api:
        return module.encode, module.decode
    word = "request" if section.name.endswith("Request") else "response"
    return getattr(module, f"encode_{word}"), getattr(module, f"decode_{word}")


def versions(section: Section) -> range:
    return range(section.low, section.high + 1)


def encoded(encode: Any, message: Any, version: int) -> bytes:
    parts: list[bytes] = []
    encode(parts.append, message, version)
    return b"".join(parts)


@pytest.mark.smoke
def test_generated_message_modules_are_up_to_date() -> None:
    directory = Path(messages.__file__).parent
    on_disk = {path.name: path.read_text() for path in directory.glob("*.py")}
    assert on_disk == sources(), "run `make generate`"


@pytest.mark.parametrize(("schema", "section"), MESSAGES)
def test_messages_round_trip_in_every_version(schema: Schema, section: Section) -> None:
    encode, decode = coders(schema, section)
    for version, seed in product(versions(section), SEEDS):
        message = MessageMaker(module_of(schema), section, version, seed).make()
        raw = encoded(encode, message, version)
        assert decode_body(decode, raw, 0, version) == message, f"version {version}"
        assert decode_body(decode, memoryview(bytearray(raw)), 0, version) == message, f"version {version}"


@pytest.mark.parametrize(("schema", "section"), MESSAGES)
def test_message_truncated_at_any_byte_is_refused(schema: Schema, section: Section) -> None:
    encode, decode = coders(schema, section)
    for version in versions(section):
        raw = encoded(encode, MessageMaker(module_of(schema), section, version, 1).make(), version)
        for size in range(len(raw)):
            with pytest.raises(DecodeError):
                decode_body(decode, raw[:size], 0, version)
        with pytest.raises(DecodeError):
            decode_body(decode, raw + b"\0", 0, version)


@cache
def kio_entity(module: str, version: int, side: str, name: str) -> Any | None:
    try:
        schema_module = import_module(f"kio.schema.{module}.v{version}.{side}")
    except ImportError:
        return None
    return getattr(schema_module, name, None)


KIO_IS_WRONG = {"ShareFetchResponse": "its records may be null in Kafka's schema, and not in kio's"}
API_MESSAGES = [
    pytest.param(schema, section, id=section.name) for schema in schemas() if schema.is_api for section in schema.sections
]


@pytest.mark.full
@pytest.mark.parametrize(("schema", "section"), API_MESSAGES)
def test_encoded_messages_equal_those_of_kio(schema: Schema, section: Section) -> None:
    from kio.serial import entity_reader, entity_writer

    side = "request" if section.name.endswith("Request") else "response"
    entities = {version: kio_entity(schema.module, version, side, section.name) for version in versions(section)}
    if not any(entities.values()):
        pytest.skip("kio does not have this message")
    if section.name in KIO_IS_WRONG:
        pytest.skip(KIO_IS_WRONG[section.name])
    encode, _ = coders(schema, section)
    for (version, entity), seed in product(entities.items(), SEEDS):
        if entity is None:
            continue
        raw = encoded(encode, MessageMaker(module_of(schema), section, version, seed).make(), version)
        theirs, size = entity_reader(entity)(raw, 0)
        assert size == len(raw)
        out = io.BytesIO()
        entity_writer(entity)(out, theirs)
        assert out.getvalue() == raw, f"version {version}"


@cache
def kafka_python_classes() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kafka.protocol as root

        classes: dict[str, Any] = {}
        for package in ("admin", "consumer", "metadata", "producer"):
            module = import_module(f"{root.__name__}.{package}")
            names = [n for _, n, _ in pkgutil.iter_modules(module.__path__)]
            for part in (module, *(import_module(f"{module.__name__}.{n}") for n in names)):
                classes |= {k: v for k, v in vars(part).items() if k.endswith(("Request", "Response")) and hasattr(v, "encode")}
        return classes


@pytest.mark.full
@pytest.mark.parametrize(("schema", "section"), API_MESSAGES)
def test_encoded_messages_equal_those_of_kafka_python(schema: Schema, section: Section) -> None:
    theirs = kafka_python_classes().get(section.name)
    if theirs is None:
        pytest.skip("kafka-python does not have this message")
    known = [version for version in versions(section) if theirs.min_version <= version <= theirs.max_version]
    encode, _ = coders(schema, section)
    for version, seed in product(known, SEEDS):
        message = MessageMaker(module_of(schema), section, version, seed).make()
        if section.name == "ApiVersionsResponse":
            message.error_code = 0  # kafka-python decodes every response that has an error as version 0.
        raw = encoded(encode, message, version)
        message = theirs.decode(raw, version=version)
        message._header = None  # kafka-python's encoder requires the attribute.
        assert bytes(message.encode(version=version)) == raw, f"version {version}"


def test_unknown_tagged_field_of_a_message_is_skipped() -> None:
    codec = api(26)
    raw = b"\x02t" + bytes(8) + b"\0\1" + b"\1" + b"\1\x63\2ab"
    request = decode_body(codec.decode_request, raw, 0, 5)
    assert (request.transactional_id, request.producer_epoch, request.committed) == ("t", 1, True)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\xff\xff\xff\xff\x7f", id="array of 2^31 elements"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff\x01", id="varint of seven bytes"),
        pytest.param(b"\x01\xff\xff\xff\xff\x0f", id="millions of tags"),
    ],
)
def test_message_with_invalid_field_lengths_is_refused(raw: bytes) -> None:
    codec = api(3)
    with pytest.raises(DecodeError):
        decode_body(codec.decode_request, raw, 0, 12)


@pytest.mark.parametrize(("version", "kind"), [(9, "compact"), (10, "compact nullable")])
def test_string_length_is_limited_to_32767_bytes_in_every_version(version: int, kind: str) -> None:
    """Kafka has the same limit. Without it, a compact length could exceed the 16 bits of older versions."""
    codec = api(3)

    def metadata(name_bytes: int) -> bytes:
        topic_id = bytes(16) if version >= 10 else b""
        return b"\2" + topic_id + uvarint(name_bytes + 1) + b"x" * name_bytes + b"\0" + bytes(3 if version < 11 else 2) + b"\0"

    request = decode_body(codec.decode_request, metadata(0x7FFF), 0, version)
    assert len(request.topics[0].name) == 0x7FFF
    with pytest.raises(DecodeError, match="32768"):
        decode_body(codec.decode_request, metadata(0x8000), 0, version)


@pytest.mark.parametrize("version", [8, 9], ids=["string", "compact"])
def test_invalid_utf8_in_message_strings_is_replaced(version: int) -> None:
    """Invalid bytes become U+FFFD, as in Java.

    U+FFFD takes three bytes in UTF-8, so a string may become too long for a response. Such a string is refused.
    """
    codec = api(3)

    def metadata(name: bytes) -> bytes:
        if version == 8:
            return (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name + bytes(3)
        return b"\2" + uvarint(len(name) + 1) + name + b"\0" + bytes(3) + b"\0"

    request = decode_body(codec.decode_request, metadata(b"a\xff\xc3\xa9\xed\xa0"), 0, version)
    assert request.topics[0].name == "a\ufffd\u00e9\ufffd\ufffd"
    assert len(decode_body(codec.decode_request, metadata(b"\xff" * (0x7FFF // 3)), 0, version).topics[0].name) == 0x7FFF // 3
    with pytest.raises(DecodeError, match="UTF-8"):
        decode_body(codec.decode_request, metadata(b"\xff" * (0x7FFF // 3 + 1)), 0, version)


def test_error_message_is_shortened_to_fit_every_version() -> None:
    error = KafkaError(Code.INVALID_CONFIG, "\u20ac" * 40_000)
    assert error.message is not None
    assert len(string(error.message)) < 4_000
    assert KafkaError(Code.INVALID_CONFIG, "short").message == "short"
