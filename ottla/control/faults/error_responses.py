"""Puts an error into a response: for the whole request or, if the API allows this, only for the matching topics and partitions.

If the API only reads, the whole request is handled, and errors replace the matching elements of the response. If the API changes
state, the matching elements are removed from the request, and their errors are added to the response.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from ottla.broker.hooks.interception import IncomingRequest, RequestTopics
from ottla.control.faults.api_names import ERRORS, KEYS, response_type
from ottla.control.faults.request_targets import FETCH, INDEX_FIELDS, NamedPlace, index_of, topic_of
from ottla.protocol.errors import Code

PRODUCE = KEYS["Produce"]
_SESSION_ERRORS = {
    ERRORS[name] for name in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR")
}
"""Errors that are sent as the top-level error code of Fetch. Clients ignore other top-level codes, so other errors are sent per
partition."""
_FROM_MINUS_ONE = ("offset", "epoch", "timestamp", "watermark", "leader_id")
"""Endings of the names of number fields whose unset value is -1."""

TOPIC_ITSELF = -1
"""The partition index that represents the whole topic. A fault with ``partition`` does not match it."""

Matches = Callable[[NamedPlace], bool]


class Refusal(NamedTuple):
    """A request that is refused wholly or in part. The handler gets ``request``, the part that is not refused, and ``complete``
    adds the errors to the handler's response. If all is refused, ``request`` is None and ``response`` is sent."""

    request: Any
    response: Any
    complete: Callable[[Any], Any] | None


class Shape(NamedTuple):
    """The names of the fields with topics and partitions in an API's request and response.

    In the request the fields are ``topics`` and ``partitions``, in the response ``answered`` and ``answered_partitions``. If
    ``partitions`` is empty, the response has an error for each topic instead of each partition.

    If the topics are inside the elements of another array, such as the transactions of AddPartitionsToTxn, ``within`` has this
    array's field in the request, its field in the response, and the field that identifies an element.
    """

    topics: str
    answered: str
    partitions: str = ""
    answered_partitions: str = ""
    within: tuple[str, str, str] = ("", "", "")


_PLAIN = Shape("topics", "topics", "partitions", "partitions")
_OF_INDEXES = Shape("topics", "topics", "partition_indexes", "partitions")

CHANGING: dict[int, tuple[Shape, ...]] = {
    PRODUCE: (Shape("topic_data", "responses", "partition_data", "partition_responses"),),
    KEYS["OffsetCommit"]: (_PLAIN,),
    KEYS["CreateTopics"]: (Shape("topics", "topics"),),
    KEYS["DeleteTopics"]: (Shape("topics", "responses"), Shape("topic_names", "responses")),
    KEYS["DeleteRecords"]: (_PLAIN,),
    KEYS["AddPartitionsToTxn"]: (
        Shape("v3_and_below_topics", "results_by_topic_v3_and_below", "partitions", "results_by_partition"),
        Shape(
            "topics",
            "topic_results",
            "partitions",
            "results_by_partition",
            within=("transactions", "results_by_transaction", "transactional_id"),
        ),
    ),
    KEYS["WriteTxnMarkers"]: (_OF_INDEXES._replace(within=("markers", "markers", "producer_id")),),
    KEYS["TxnOffsetCommit"]: (_PLAIN,),
    KEYS["CreatePartitions"]: (Shape("topics", "results"),),
    KEYS["OffsetDelete"]: (_PLAIN,),
}
"""The APIs that change state. Matching topics and partitions are removed from the request."""

READING: dict[int, tuple[Shape, ...]] = {
    FETCH: (Shape("topics", "responses", "partitions", "partitions"),),
    KEYS["ListOffsets"]: (_PLAIN,),
    KEYS["Metadata"]: (Shape("topics", "topics", "", "partitions"),),
    KEYS["OffsetFetch"]: (_OF_INDEXES, _OF_INDEXES._replace(within=("groups", "groups", "group_id"))),
    KEYS["OffsetForLeaderEpoch"]: (_PLAIN,),
    KEYS["DescribeProducers"]: (_OF_INDEXES,),
    KEYS["DescribeTopicPartitions"]: (Shape("topics", "topics", "", "partitions"),),
}
"""The APIs that only read. The request is carried out, and its response is changed."""


def can_be_partial(key: int) -> bool:
    """Whether an API can return an error for some of its topics."""
    return key in CHANGING or key in READING


def refuse(incoming: IncomingRequest, code: int, matches: Matches | None) -> Refusal:
    """Refuse a request. ``matches`` selects the topics and partitions; None refuses the whole request."""
    if incoming.api_key == FETCH and code not in _SESSION_ERRORS:
        return _fetch(incoming, code, matches or _everything)
    if matches is None or not can_be_partial(incoming.api_key):
        return Refusal(None, incoming.refusal(incoming.request, incoming.version, cast(Code, code)), None)
    if incoming.api_key in READING:
        shapes = READING[incoming.api_key]
        return Refusal(incoming.request, None, lambda response: _rewritten(response, shapes, incoming.topics, code, matches))
    return _split(incoming, code, matches)


def _everything(place: NamedPlace) -> bool:
    return True


def _rewritten(message: Any, shapes: tuple[Shape, ...], topics: RequestTopics, code: int, matches: Matches) -> Any:
    for shape in shapes:
        outer = shape.within[1]
        if outer:
            inner = (shape._replace(within=("", "", "")),)
            changed = [_rewritten(one, inner, topics, code, matches) for one in getattr(message, outer)]
            message = replace(message, **{outer: changed})
        elif getattr(message, shape.answered, None):
            rewrite = partial(_rewritten_topic, shape=shape, topics=topics, code=code, matches=matches)
            message = replace(message, **{shape.answered: [rewrite(topic) for topic in getattr(message, shape.answered)]})
    return message


def _rewritten_topic(topic: Any, *, shape: Shape, topics: RequestTopics, code: int, matches: Matches) -> Any:
    name = topic_of(topic, topics)
    if not shape.partitions and matches(NamedPlace(name, TOPIC_ITSELF)):
        # A topic with an error code has no partitions in the response.
        return replace(topic, error_code=code, **{shape.answered_partitions: []})
    answers = getattr(topic, shape.answered_partitions)
    told = [_refused(type(a), index_of(a), code) if matches(NamedPlace(name, index_of(a))) else a for a in answers]
    return replace(topic, **{shape.answered_partitions: told})


def _fetch(incoming: IncomingRequest, code: int, matches: Matches) -> Refusal:
    """Refuse the matching partitions of a Fetch. Its maximum wait is 0, so that the errors are sent at once. Refused partitions are
    added to the response, because the response of a fetch session may omit unchanged partitions."""
    refused: dict[tuple[bytes, str, int], None] = {}
    by_id = incoming.version >= 13
    for topic in incoming.request.topics:
        name = topic_of(topic, incoming.topics)
        for p in topic.partitions:
            if matches(NamedPlace(name, p.partition)):
                refused[topic.topic_id, "" if by_id else topic.topic, p.partition] = None
    for topic_id, name, index in (
        incoming.topics.of_fetch_session(incoming.request.session_id) if incoming.request.session_epoch > 0 else ()
    ):
        if matches(NamedPlace(name or incoming.topics.name_of(topic_id) or "", index)):
            refused[topic_id, "" if by_id else name, index] = None
    for gone in incoming.request.forgotten_topics_data:
        for index in gone.partitions:
            refused.pop((gone.topic_id, "" if by_id else gone.topic, index), None)
    request = replace(incoming.request, max_wait_ms=0)
    return Refusal(request, None, lambda response: _fetched(response, list(refused), code))


def _fetched(response: Any, refused: list[tuple[bytes, str, int]], code: int) -> Any:
    if response.error_code:
        return response
    keys = set(refused)
    topics = []
    for topic in response.responses:
        kept = [p for p in topic.partitions if (topic.topic_id, topic.topic, p.partition_index) not in keys]
        if kept:
            topics.append(replace(topic, partitions=kept))
    topic_type, partition_type = _types(response_type(FETCH), Shape("", "responses", "", "partitions"))
    for topic_id, name, index in refused:
        if not topics or (topics[-1].topic_id, topics[-1].topic) != (topic_id, name):
            topics.append(topic_type(topic_id=topic_id, topic=name, partitions=[]))
        topics[-1].partitions.append(_refused(partition_type, index, code))
    return replace(response, responses=topics)


def _split(incoming: IncomingRequest, code: int, matches: Matches) -> Refusal:
    request, response = incoming.request, response_type(incoming.api_key)()
    is_whole = True
    for shape in CHANGING[incoming.api_key]:
        outer, answered_outer, key = shape.within
        if not outer:
            rest, refused = _split_topics(request, response, shape, incoming.topics, code, matches)
            request = replace(request, **{shape.topics: rest})
            setattr(response, shape.answered, getattr(response, shape.answered) + refused)
            is_whole = is_whole and not rest
            continue
        kept, answers = [], []
        element_type = _element(type(response), answered_outer)
        for one in getattr(request, outer):
            rest, refused = _split_topics(one, element_type(), shape, incoming.topics, code, matches)
            if rest:
                kept.append(replace(one, **{shape.topics: rest}))
            if refused:
                answers.append(element_type(**{key: getattr(one, key), shape.answered: refused}))
        request = replace(request, **{outer: kept})
        setattr(response, answered_outer, answers)
        is_whole = is_whole and not kept
    if is_whole:
        return Refusal(None, None if _is_unanswered(incoming) else response, None)
    return Refusal(request, None, lambda handled: _merged(handled, response, CHANGING[incoming.api_key]))


def _is_unanswered(incoming: IncomingRequest) -> bool:
    return incoming.api_key == PRODUCE and incoming.request.acks == 0


def _split_topics(
    message: Any, answer: Any, shape: Shape, topics: RequestTopics, code: int, matches: Matches
) -> tuple[list[Any], list[Any]]:
    """Return the topics that remain in the request, and the error responses of refused topics. A partly refused topic is in both
    lists."""
    topic_type, partition_type = _types(type(answer), shape)
    rest, refused = [], []
    for topic in getattr(message, shape.topics) or ():
        name = topic if isinstance(topic, str) else topic_of(topic, topics)
        if not shape.partitions:
            if matches(NamedPlace(name)):
                refused.append(_named(topic_type(error_code=code), topic))
            else:
                rest.append(topic)
            continue
        kept, gone = [], []
        for entry in getattr(topic, shape.partitions):
            index = index_of(entry)
            if matches(NamedPlace(name, index)):
                gone.append(_refused(partition_type, index, code))
            else:
                kept.append(entry)
        if kept or not gone:
            rest.append(replace(topic, **{shape.partitions: kept}))
        if gone:
            refused.append(_named(topic_type(**{shape.answered_partitions: gone}), topic))
    return rest, refused


def _named(answer: Any, topic: Any) -> Any:
    if isinstance(topic, str):
        answer.name = topic
        return answer
    for field in ("name", "topic", "topic_name", "topic_id"):
        if hasattr(topic, field) and hasattr(answer, field):
            setattr(answer, field, getattr(topic, field))
    return answer


def _merged(handled: Any, refused: Any, shapes: tuple[Shape, ...]) -> Any:
    for shape in {(shape.within, shape.answered): shape for shape in shapes}.values():
        _, outer, key = shape.within
        if not outer:
            joined = _joined(getattr(handled, shape.answered), getattr(refused, shape.answered), shape)
            handled = replace(handled, **{shape.answered: joined})
            continue
        others = {getattr(one, key): one for one in getattr(refused, outer)}
        elements = []
        for one in getattr(handled, outer):
            other = others.pop(getattr(one, key), None)
            told = [] if other is None else getattr(other, shape.answered)
            elements.append(replace(one, **{shape.answered: _joined(getattr(one, shape.answered), told, shape)}))
        handled = replace(handled, **{outer: elements + list(others.values())})
    return handled


def _joined(handled: list[Any], refused: list[Any], shape: Shape) -> list[Any]:
    """Join the handled and the refused topics. If a topic is in both lists, its partitions are joined in one entry."""
    if not shape.partitions:
        return handled + refused
    waiting = list(refused)
    topics = []
    for topic in handled:
        same = next((other for other in waiting if _key(other) == _key(topic)), None)
        if same is not None:
            waiting.remove(same)
            both = getattr(topic, shape.answered_partitions) + getattr(same, shape.answered_partitions)
            topics.append(replace(topic, **{shape.answered_partitions: both}))
        else:
            topics.append(topic)
    return topics + waiting


def _key(topic: Any) -> tuple[Any, ...]:
    return tuple(getattr(topic, field, None) for field in ("name", "topic", "topic_id"))


def _refused(answer: type[msgspec.Struct], index: int, code: int) -> Any:
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(answer):
        if field.name in INDEX_FIELDS:
            values[field.name] = index
        elif field.name.endswith("error_code"):
            values[field.name] = code
        elif field.name.endswith(_FROM_MINUS_ONE) and field.type is int:
            values[field.name] = -1
        elif field.name == "records":
            values[field.name] = b""
        elif field.name == "metadata":
            values[field.name] = ""
    return answer(**values)


def _types(answer: type[msgspec.Struct], shape: Shape) -> tuple[Any, Any]:
    topic = _element(answer, shape.answered)
    return topic, _element(topic, shape.answered_partitions) if shape.answered_partitions else None


def _element(message: type[msgspec.Struct], field: str) -> Any:
    annotation = next(f.type for f in msgspec.structs.fields(message) if f.name == field)
    options = getattr(annotation, "__args__", ())
    return next(
        o if isinstance(o, type) and issubclass(o, msgspec.Struct) else o.__args__[0] for o in options if o is not type(None)
    )
