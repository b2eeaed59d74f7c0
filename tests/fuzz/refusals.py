"""Decides whether a response refuses a request, and lists the changes that a refused or read-only request may still cause."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.messages import APIS
from tests.fuzz.state import METADATA, Key, State

INTERNAL = (OFFSETS_TOPIC, TRANSACTION_TOPIC)
LOOKS = frozenset({1, 2, 9, 15, 16, 18, 23, 29, 32, 35, 60, 61, 65, 66, 74, 75})
"""Keys of APIs that never change anything."""

MARKERS = frozenset({27})
SIZES = ("max.message.bytes", "message.max.bytes", "segment.bytes", "log.segment.bytes")
ROOM_BYTES = 1 << 20
"""Upper bound on a coordinator's record, in bytes."""
COORDINATED = frozenset({8, 11, 12, 13, 14, 22, 24, 25, 26, 28, 42, 47, 68, 76, 88, 91, 92})
"""Keys of APIs whose responses wait for a coordinator's log."""


def codes(message: Any) -> list[tuple[int, int]]:
    """Return the depth and value of every error code in a response."""
    depths_and_codes: list[tuple[int, int]] = []
    _collect(message, 0, depths_and_codes)
    return depths_and_codes


@cache
def _named(struct: type[msgspec.Struct]) -> list[tuple[str, bool]]:
    """Return the fields of a struct, each with whether it is an error code."""
    return [(name, name.endswith("error_code")) for name in struct.__struct_fields__]


def _collect(value: Any, depth: int, depths_and_codes: list[tuple[int, int]]) -> None:
    for name, is_code in _named(type(value)):
        inner = getattr(value, name)
        if is_code:
            depths_and_codes.append((depth, inner))
        elif isinstance(inner, list):
            # All elements of an array have the same type.
            if inner and isinstance(inner[0], msgspec.Struct):
                for item in inner:
                    _collect(item, depth + 1, depths_and_codes)
        elif isinstance(inner, msgspec.Struct):
            _collect(inner, depth + 1, depths_and_codes)


def refused(depths_and_codes: list[tuple[int, int]]) -> set[int]:
    """Return the error codes of a response that refuses the whole request, or an empty set for any other response."""
    top = [code for depth, code in depths_and_codes if depth == 0]
    nested = [code for depth, code in depths_and_codes if depth > 0]
    if any(top):
        return set(top) - {0}
    return set(nested) if nested and all(nested) else set()


def may_be_unknown(key: int, before: State, max_message_bytes: int) -> bool:
    """Whether Apache Kafka may also answer UNKNOWN_SERVER_ERROR in this state.

    It does so for markers of an unknown producer, and if a coordinator's record exceeds the largest batch that a topic or the
    broker accepts. ``max_message_bytes`` is that limit in the settings with which the broker started.
    """
    if key in MARKERS:
        return True
    sizes = [value for k in before if k[0] == "configs" for name, value in before[k] if name in SIZES]
    small = min((max_message_bytes, *map(int, sizes))) < ROOM_BYTES
    return small and key in COORDINATED


def excused(key: int, request: Any, reasons: set[int], before: State, after: State) -> set[Key]:
    """Return the keys of changed state that this refused request is allowed to change."""
    name = APIS[key].name
    changed = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
    allowed = {k for k in changed if _internal_made(k, before)}
    if allowed:
        allowed.add(METADATA)
    if name == "JoinGroup":
        # An empty group of another type is replaced when the group's first member is asked to rejoin with its member id.
        kinds = ("group", "consumer group", "streams group", "log")
        allowed |= {k for k in changed if k[0] in kinds and Code.MEMBER_ID_REQUIRED in reasons}
    if name in ("Produce", "TxnOffsetCommit"):
        # Transaction version 2: the partition joins the transaction before the group or the log handles the request, as in Kafka.
        allowed |= {k for k in changed if k[0] == "transaction" or k[1:2] == (TRANSACTION_TOPIC,)}
    if name == "AddPartitionsToTxn":
        # A request without partitions begins a transaction, which no error code shows.
        allowed |= {k for k in changed if k[0] == "transaction" or k[1:2] == (TRANSACTION_TOPIC,) if _adds_nothing(request)}
    if name == "Produce":
        # The lowest sequence that verification has refused is kept, so that a later sequence is not accepted before it (KIP-890).
        allowed |= {k for k in changed if k[0] == "unverified"}
    if name == "InitProducerId" and Code.CONCURRENT_TRANSACTIONS in reasons:
        # InitProducerId aborts the open transaction and asks the client to retry.
        allowed |= changed
    return allowed


def _adds_nothing(request: Any) -> bool:
    return any(not topic.partitions for t in request.transactions for topic in t.topics) or any(
        not t.topics for t in request.transactions
    )


def _internal_made(key: Key, before: State) -> bool:
    """Whether a coordinator's internal topic was created by this request. The topics are created when they are first needed."""
    return any(name in key and ("topic", name) not in before for name in INTERNAL)
