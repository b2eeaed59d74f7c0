"""Conversion of requests from JSON, and of responses to JSON, for the scenario command ``ask``.

A message is a JSON object of the fields that differ from their defaults, with the names of ottla.protocol.messages. A topic id is
written as the topic's name. Bytes are written as text, or in hexadecimal after ``0x``, or as an object that describes their
content: a batch of records, or the subscription or assignment of a classic consumer.
"""

from __future__ import annotations

import contextlib
import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from ottla.protocol.codec import decode_record, encode_record
from ottla.protocol.errors import Code, DecodeError
from ottla.protocol.messages import consumer_protocol_assignment, consumer_protocol_subscription
from ottla.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.records import BatchHeader, batches, build_batch, crc_is_valid, read_records
from tests.scenarios.verbs import CODECS

BROKERS_OWN = {"throttle_time_ms", "error_message", "host", "port", "cluster_id", "node_id", "controller_id", "leader_id"}
BROKERS_OWN |= {"replica_nodes", "isr_nodes", "configs", "producer_id", "rack", "broker_id", "transaction_start_time_ms", "log_dir"}
BROKERS_OWN |= {"usable_bytes", "total_bytes", "batch_index_error_message", "status_detail"}
"""Response fields that are not shown: texts for people, and ids, addresses and sizes that are specific to a broker."""
WITHOUT_TEXTS = BROKERS_OWN - {"error_message", "status_detail"}
"""The fields that are not shown in responses to users, whose error messages are compared."""
UNORDERED = {
    "topic_results",
    "results_by_partition",
    "results_by_topic_v3_and_below",
    "groups",
    "config_resources",
    "transaction_states",
    "replica_election_results",
    "results",
    "entries",
    "members",
    "entity",
    "values",
    "credential_infos",
}
"""Lists that Apache Kafka returns in the order of a hash map or of its shards. They are shown sorted."""
UNORDERED_FOR_USERS = UNORDERED | {"responses", "topics", "partitions", "partition_responses", "resources", "acls", "matching_acls"}
"""Lists that users' responses show sorted too: Apache Kafka returns them in the order of a hash map if it refuses parts of a
request."""
FIRST_TIME_MS = 1_000_000_000_000
"""Integers between this number and twice this number are shown as timestamps of the test run."""
_EMBEDDED = {
    "subscription": (consumer_protocol_subscription, ConsumerProtocolSubscription),
    "assignment": (consumer_protocol_assignment, ConsumerProtocolAssignment),
}
_EMBEDDED_IN = {"metadata": "subscription", "assignment": "assignment"}
"""Type of the embedded message in a bytes field, by the last word of the field's name."""
_BATCH_OPTIONS = {"producer_id", "producer_epoch", "base_sequence", "transactional"}


class Reader:
    """Creates messages from JSON. ``topic_id`` returns the id of a topic name; ``now_ms`` is the timestamp of new records."""

    def __init__(self, topic_id: Callable[[str], bytes], now_ms: int) -> None:
        self._topic_id = topic_id
        self._now_ms = now_ms

    def message(self, kind: type, given: Mapping[str, Any]) -> Any:
        """Return an instance of a generated struct. Raises `TypeError` for an unknown field."""
        hints = _hints(kind)
        values = {}
        for name, value in given.items():
            if name not in hints:
                raise TypeError(f"{kind.__name__} has no field {name}")
            values[name] = self._value(hints[name], value, is_id=_default(kind, name) == NO_UUID)
        return kind(**values)

    def _value(self, hint: Any, value: Any, *, is_id: bool) -> Any:
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)] if _is_union(hint) else [hint]
        if value is None:
            return None
        if is_id:
            return self._topic_id(value)
        if bytes in kinds:
            return self._bytes(value)
        if str in kinds:
            return str(value)
        if typing.get_origin(kinds[0]) is list:
            return [self._value(typing.get_args(kinds[0])[0], one, is_id=False) for one in value]
        return self.message(kinds[0], value) if issubclass(kinds[0], msgspec.Struct) else value

    def _bytes(self, value: Any) -> bytes:
        if isinstance(value, str):
            return raw(value)
        if isinstance(value, list):
            return b"".join(map(self._bytes, value))
        if "batch" in value:
            return self._batch(value)
        ((name, content),) = ((name, content) for name, content in value.items() if name != "version")
        module, kind = _EMBEDDED[name]
        return encode_record(module, self.message(kind, content), value.get("version", 0))

    def _batch(self, value: dict[str, Any]) -> bytes:
        """Build a batch. ``batch`` lists the records, as ``key=value`` or ``value``.

        ``byte`` replaces bytes by position, ``flip`` inverts all bits of one byte, and ``cut`` removes bytes from the end.
        """
        records = []
        for record in value["batch"] * value.get("times", 1):
            key, equals, text = record.rpartition("=")
            records.append((key.encode() if equals else None, text.encode().ljust(value.get("value_bytes", 0), b".")))
        batch = build_batch(
            records,
            value.get("timestamp_ms", self._now_ms),
            compression=CODECS[value.get("compression", "none")],
            **{option: value[option] for option in _BATCH_OPTIONS & value.keys()},
        )
        for at, byte in value.get("byte", {}).items():
            batch[int(at)] = byte
        if "flip" in value:
            batch[value["flip"]] ^= 0xFF
        return bytes(batch[: len(batch) - value.get("cut", 0)])


class Writer:
    """Formats messages as JSON, without broker-specific fields.

    ``topic`` returns the name of a topic id, and ``text`` masks values that differ between runs.
    """

    def __init__(self, topic: Callable[[bytes], str], text: Callable[[str], str], *, is_for_user: bool = False) -> None:
        """``is_for_user``: whether the request came from a user that the scenario names; if so, error messages are shown, too."""
        self._topic = topic
        self._text = text
        self._hidden = WITHOUT_TEXTS if is_for_user else BROKERS_OWN
        self._unordered = UNORDERED_FOR_USERS if is_for_user else UNORDERED

    def response(self, answer: Any) -> str:
        """Return the fields that differ from their defaults, after the name of the top-level error if the response has one."""
        fields = self.fields(answer, self._hidden)
        whole = fields.pop("error_code", "NONE" if hasattr(answer, "error_code") else "")
        if not whole:
            return compact(fields)
        return f"{whole} {compact(fields)}" if fields else str(whole)

    def fields(self, message: msgspec.Struct, hidden: set[str] = BROKERS_OWN) -> dict[str, Any]:
        shown = {}
        for name in message.__struct_fields__:
            value, default = getattr(message, name), _default(type(message), name)
            if name in hidden or (value is not None and value == default):
                continue
            if value is None and default is None:
                continue
            shown[name] = self._field(name, value, hidden, is_id=default == NO_UUID)
        return shown

    def _field(self, name: str, value: Any, hidden: set[str], *, is_id: bool) -> Any:
        if value is None:
            return None
        if name == "error_code" or name.endswith("_error_code"):
            return Code(value).name
        if name == "session_id":
            return "a session"
        if is_id:
            return self._topic(value)
        if name == "client_host":
            return "a host"
        if name == "records":
            return self._batches(bytes(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(bytes(value), _EMBEDDED_IN.get(name.rpartition("_")[2], ""))
        shown = self._value(value, hidden)
        return sorted(shown, key=compact) if name in self._unordered else shown

    def _value(self, value: Any, hidden: set[str]) -> Any:
        if isinstance(value, msgspec.Struct):
            return self.fields(value, hidden)
        if isinstance(value, list):
            return [self._value(one, hidden) for one in value]
        if isinstance(value, str):
            return self._text(value)
        return "a time" if isinstance(value, int) and FIRST_TIME_MS < value < 2 * FIRST_TIME_MS else value

    def _bytes(self, value: bytes, embedded: str) -> Any:
        version = int.from_bytes(value[:2], "big")
        if embedded:
            with contextlib.suppress(DecodeError, ValueError):
                content = decode_record(_EMBEDDED[embedded][0], value)
                if encode_record(_EMBEDDED[embedded][0], content, version) == value:
                    return {embedded: self.fields(content, set()), **({"version": version} if version else {})}
        return value.decode() if re.fullmatch(rb"[ -~]*", value) and not value.startswith(b"0x") else f"0x{value.hex()}"

    def _batches(self, data: bytes) -> list[str]:
        whole = list(batches(data))
        shown = [self._batch(header, data[at : at + header.size_bytes]) for at, header in whole]
        rest = len(data) - sum(header.size_bytes for _, header in whole)
        return [*shown, f"and {rest} bytes"] if rest else shown

    def _batch(self, header: BatchHeader, raw: bytes) -> str:
        """Return offsets, leader epoch, attributes, the producer's epoch and sequence number, and the records."""
        parts = [f"{header.base_offset}-{header.last_offset} e{header.leader_epoch}"]
        parts += [f"{header.attributes:#x}"] if header.attributes else []
        parts += [f"p e{header.producer_epoch} s{header.base_sequence}"] if header.producer_id >= 0 else []
        parts += [] if crc_is_valid(raw, header) else ["a wrong CRC"]
        records = [(record.key, record.value) for record in read_records(raw)]
        return " ".join([*parts, *(b"=".join(part for part in record if part is not None).decode() for record in records)])


def raw(text: str) -> bytes:
    return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode("ascii")


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@cache
def _defaults(kind: type) -> dict[str, Any]:
    zeros: dict[Any, Any] = {int: 0, str: "", bytes: b"", bool: False, float: 0.0}
    defaults = {}
    for one in msgspec.structs.fields(kind):
        default = one.default
        if default is msgspec.NODEFAULT and one.default_factory is not msgspec.NODEFAULT:
            default = one.default_factory()
        if default is msgspec.NODEFAULT:
            hint = _hints(kind)[one.name]
            default = [] if typing.get_origin(hint) is list else zeros.get(hint, msgspec.NODEFAULT)
        defaults[one.name] = default
    return defaults


def _default(kind: type, name: str) -> Any:
    """Return the default of a field, or zero or an empty value of its type if it has no default."""
    return _defaults(kind)[name]


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (types.UnionType, typing.Union)
