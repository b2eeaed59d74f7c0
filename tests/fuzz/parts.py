"""Checks requests with many elements, such as partitions.

A refused element must not change the state, even if the request's other elements were accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.messages import APIS
from tests.fuzz.state import Key, State

Told = Iterator[tuple[Key, int]]
"""Key of the state that an element of a request would change, and the error code in the element's response."""


class Answered(Protocol):
    key: int
    request: Any
    response: Any


def broken(exchange: Answered, before: State, after: State) -> set[Key]:
    """Return the keys of state that changed, although the request was only validated or refused every element with this key."""
    request, response = exchange.request, exchange.response
    if getattr(request, "validate_only", False):
        return {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
    parts = _PARTS.get(APIS[exchange.key].name)
    if parts is None:
        return set()
    accepted: set[Key] = set()
    refused: set[Key] = set()
    for about, code in parts(request, response, before):
        (refused if code else accepted).add(about)
    return {k for k in refused - accepted if _at(before, k) != _at(after, k)}


def _at(state: State, key: Key) -> Any:
    if key[0] == "offset":
        _, group_id, topic, partition = key
        return dict(state.get(("offsets", group_id), ())).get((topic, partition))
    return state.get(key)


def _names(before: State) -> dict[bytes, str]:
    return {before[k][0]: k[1] for k in before if k[0] == "topic"}


def _produce(request: Any, response: Any, before: State) -> Told:
    names = _names(before)
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for part in topic.partition_responses:
            if name != TRANSACTION_TOPIC:
                # Another partition of the request may have joined the transaction, which is recorded in this log.
                yield ("log", name, part.index), part.error_code
            yield ("producers", name, part.index), part.error_code


def _topics(request: Any, response: Any, before: State) -> Told:
    for topic in response.topics if hasattr(response, "topics") else response.results:
        yield ("topic", topic.name), topic.error_code


def _deleted_topics(request: Any, response: Any, before: State) -> Told:
    names = _names(before)
    for topic in response.responses:
        yield ("topic", topic.name or names.get(topic.topic_id, "")), topic.error_code


def _deleted_records(request: Any, response: Any, before: State) -> Told:
    for topic in response.topics:
        for part in topic.partitions:
            yield ("log", topic.name, part.partition_index), part.error_code


def _configs(request: Any, response: Any, before: State) -> Told:
    for one in response.responses:
        yield ("configs", one.resource_type, one.resource_name), one.error_code


def _deleted_groups(request: Any, response: Any, before: State) -> Told:
    for group in response.results:
        yield ("group", group.group_id), group.error_code
        yield ("offsets", group.group_id), group.error_code


def _offsets(request: Any, response: Any, before: State) -> Told:
    names = _names(before)
    for topic in response.topics:
        name = getattr(topic, "name", "") or names.get(getattr(topic, "topic_id", b""), "")
        for part in topic.partitions:
            yield ("offset", request.group_id, name, part.partition_index), part.error_code


def _markers(request: Any, response: Any, before: State) -> Told:
    for marker in response.markers:
        for topic in marker.topics:
            for part in topic.partitions:
                yield ("log", topic.name, part.partition_index), part.error_code


_PARTS: dict[str, Callable[[Any, Any, State], Told]] = {
    "AlterConfigs": _configs,
    "CreatePartitions": _topics,
    "CreateTopics": _topics,
    "DeleteGroups": _deleted_groups,
    "DeleteRecords": _deleted_records,
    "DeleteTopics": _deleted_topics,
    "IncrementalAlterConfigs": _configs,
    "OffsetCommit": _offsets,
    "OffsetDelete": _offsets,
    "Produce": _produce,
    "WriteTxnMarkers": _markers,
}
