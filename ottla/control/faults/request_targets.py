"""Finds the topics, partitions, groups and transactional ids in a request, by the names of the fields in Kafka's schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple, get_args

import msgspec

from ottla.broker.hooks.interception import IncomingRequest, RequestTopics
from ottla.control.faults.api_names import KEYS

FETCH = KEYS["Fetch"]
FIND_COORDINATOR = KEYS["FindCoordinator"]
_GROUP_KEY, _TRANSACTION_KEY = 0, 1
"""The key types of FindCoordinator (FindCoordinatorRequest.CoordinatorType)."""

TOPIC_FIELDS = {"topics", "topic_data", "v3_and_below_topics", "topic_partitions"}
TOPIC_NAME_FIELDS = {"topic_names", "subscribed_topic_names"}
PARTITION_FIELDS = ("partitions", "partition_data", "partition_indexes")
INDEX_FIELDS = ("partition_index", "partition", "index", "partition_id")
GROUP_FIELDS = {"group_id", "group_ids", "groups_names"}
TRANSACTION_FIELDS = {"transactional_id", "v3_and_below_transactional_id", "transactional_ids"}
_WITHIN = ("groups", "transactions", "markers", "dirs")
"""Array fields of requests whose elements contain topics, groups or transactional ids."""


class NamedPlace(NamedTuple):
    """A topic or one of its partitions. None means all topics or all partitions."""

    topic: str | None
    partition: int | None = None


def topic_of(entry: Any, topics: RequestTopics) -> str:
    """Return the name of the topic that an array's element identifies by name or id. Returns an empty text for an unknown id."""
    for field in ("name", "topic", "topic_name"):
        name = getattr(entry, field, None)
        if name:
            return str(name)
    topic_id = getattr(entry, "topic_id", None)
    return (topics.name_of(topic_id) or "") if topic_id is not None else ""


def index_of(entry: Any) -> int:
    if isinstance(entry, int):
        return entry
    return next(int(getattr(entry, field)) for field in INDEX_FIELDS if hasattr(entry, field))


def places(incoming: IncomingRequest) -> Iterator[NamedPlace]:
    """Yield all topics and partitions of a request, including the partitions of its fetch session."""
    yield from _places(incoming.request, incoming.topics)
    if incoming.api_key == FETCH and incoming.request.session_id:
        for topic_id, name, index in incoming.topics.of_fetch_session(incoming.request.session_id):
            yield NamedPlace(name or incoming.topics.name_of(topic_id) or "", index)


def _places(message: Any, topics: RequestTopics) -> Iterator[NamedPlace]:
    for field in message.__struct_fields__:
        value = getattr(message, field)
        if field in TOPIC_FIELDS:
            if value is None:
                yield NamedPlace(None)
            for entry in value or ():
                yield from _of_topic(entry, topics)
        elif field in TOPIC_NAME_FIELDS:
            yield from (NamedPlace(name) for name in value or ())
        elif field in _WITHIN:
            for entry in value or ():
                if isinstance(entry, msgspec.Struct):
                    yield from _places(entry, topics)


def _of_topic(entry: Any, topics: RequestTopics) -> Iterator[NamedPlace]:
    name = topic_of(entry, topics)
    partitions = next((getattr(entry, field) for field in PARTITION_FIELDS if hasattr(entry, field)), None)
    if not partitions:
        yield NamedPlace(name)
    for partition in partitions or ():
        yield NamedPlace(name, index_of(partition))


def groups(incoming: IncomingRequest) -> Iterator[str]:
    if incoming.api_key == FIND_COORDINATOR:
        yield from _coordinator_keys(incoming.request, _GROUP_KEY)
        return
    yield from _texts(incoming.request, GROUP_FIELDS)
    for group in getattr(incoming.request, "groups", None) or ():
        yield from (group,) if isinstance(group, str) else _texts(group, GROUP_FIELDS)


def transactional_ids(incoming: IncomingRequest) -> Iterator[str]:
    if incoming.api_key == FIND_COORDINATOR:
        yield from _coordinator_keys(incoming.request, _TRANSACTION_KEY)
        return
    yield from _texts(incoming.request, TRANSACTION_FIELDS)
    for transaction in getattr(incoming.request, "transactions", None) or ():
        yield from _texts(transaction, TRANSACTION_FIELDS)


def _coordinator_keys(request: Any, kind: int) -> Iterable[str]:
    return (request.coordinator_keys or [request.key]) if request.key_type == kind else ()


def _texts(message: Any, fields: set[str]) -> Iterator[str]:
    for field in message.__struct_fields__:
        if field in fields:
            value = getattr(message, field)
            if isinstance(value, str):
                if value:
                    yield value
            else:
                yield from value or ()


@cache
def fields_of(message: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names of the fields of a message and of all structs inside it."""
    names: set[str] = set()
    for field in msgspec.structs.fields(message):
        names.add(field.name)
        for inner in _structs(field.type):
            names |= fields_of(inner)
    return frozenset(names)


def _structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for argument in get_args(annotation):
        yield from _structs(argument)


def names_topics(message: type[msgspec.Struct]) -> bool:
    return not fields_of(message).isdisjoint(TOPIC_FIELDS | TOPIC_NAME_FIELDS)


def names_groups(message: type[msgspec.Struct]) -> bool:
    return not fields_of(message).isdisjoint(GROUP_FIELDS | {"groups", "coordinator_keys"})


def names_transactions(message: type[msgspec.Struct]) -> bool:
    return not fields_of(message).isdisjoint(TRANSACTION_FIELDS | {"coordinator_keys"})
