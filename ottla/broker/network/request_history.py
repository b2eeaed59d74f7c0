"""Reports the responses to requests about transactional ids to a `TransactionListener`.

For each API of a connection the dispatcher gets a `reporter`, or None if the API is not reported, and calls it with each response.
So requests that are not reported need only one comparison. Every transaction has an EndTxn, so EndTxn is reported as a plain tuple
(`Ended`), from which the `TransactionListener` builds an event only when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice, repeat
from typing import Any, Protocol, TypeAlias

import msgspec

from ottla.broker.apis.api import Declared, RequestContext
from ottla.broker.hooks.transaction_history import (
    PARTITIONS_KEPT,
    Asker,
    Happened,
    Kind,
    TransactionListener,
    cut,
    first_partitions,
)
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code
from ottla.protocol.topic_partition import TopicPartition

TRANSACTIONS_REPORTED = 100
"""Maximum number of refused transactions of one AddPartitionsToTxn request that are reported. Clients send only one transaction."""
ERRORS_READ = 1_000
"""Maximum number of errors of one response that are read. Larger responses have the same error in most of their elements."""
_REQUEST, _NONE = Kind.REQUEST, int(Code.NONE)
"""Constants for speed: Python calls a function each time an enumeration member is looked up by its name."""
BROKERS_FROM = 4
"""The first version of AddPartitionsToTxn that brokers send, with several transactions in a request."""
_INIT_PRODUCER_ID, _ADD_PARTITIONS, _ADD_OFFSETS, _END, _COMMIT_OFFSETS = 22, 24, 25, 26, 28


class Ports(Protocol):
    cluster: ClusterCommands


class _Noted(msgspec.Struct, frozen=True):
    """The client and the `TransactionListener` to notify, for all requests of one API and version on a connection."""

    listener: TransactionListener
    asker: Asker


Reporter: TypeAlias = Callable[[Any, int, Any, Any], None]
"""Takes the server's services, the time of the request in ms since 1970, the request and its response."""


def reporter(declared: Declared[Any], listener: TransactionListener, context: RequestContext) -> Reporter | None:
    """A function that reports responses of one API on one connection; None for an API that is not reported."""
    report = _REPORTS.get(declared.key)
    if report is None:
        return None
    if report is _add_partitions and context.version >= BROKERS_FROM:
        report = _add_partitions_by_broker
    asker = Asker(client_id=cut(context.client_id), client_host=context.client_host, api=declared.name, version=context.version)
    return partial(report, _Noted(listener, asker))


def _init_producer_id(noted: _Noted, ports: Ports, come_ms: int, request: Any, response: Any) -> None:
    if not request.transactional_id:
        return
    listener = noted.listener
    report = listener.happened if response.error_code else listener.taken
    report(
        Happened(
            time_ms=come_ms,
            kind=_REQUEST,
            asker=noted.asker,
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            error=response.error_code,
            new_producer_id=response.producer_id,
            new_producer_epoch=response.producer_epoch,
        )
    )


def _end(noted: _Noted, ports: Ports, come_ms: int, request: Any, response: Any) -> None:
    noted.listener.ended(
        (
            come_ms,
            noted.asker,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            response.error_code,
            request.committed,
            response.producer_id,
            response.producer_epoch,
        )
    )


def _add_offsets(noted: _Noted, ports: Ports, come_ms: int, request: Any, response: Any) -> None:
    noted.listener.happened(
        Happened(
            time_ms=come_ms,
            kind=_REQUEST,
            asker=noted.asker,
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            error=response.error_code,
            group_id=cut(request.group_id),
        )
    )


def _commit_offsets(noted: _Noted, ports: Ports, come_ms: int, request: Any, response: Any) -> None:
    named = ports.cluster.state.topics_by_id

    def name(topic: Any) -> str:
        return topic.name or (named[topic.topic_id].name if topic.topic_id in named else "")

    noted.listener.happened(
        Happened(
            time_ms=come_ms,
            kind=_REQUEST,
            asker=noted.asker,
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            error=_first_error(p.error_code for topic in response.topics for p in topic.partitions),
            group_id=cut(request.group_id),
            partitions=first_partitions((name(topic), p.partition_index) for topic in request.topics for p in topic.partitions),
            partition_count=sum([len(topic.partitions) for topic in request.topics]),
        )
    )


def _add_partitions(noted: _Noted, ports: Ports, come_ms: int, request: Any, response: Any) -> None:
    """Report refused partitions, and added partitions if the client is not the known owner of the transactional id.

    The coordinator's log has all added partitions. A request without partitions is not reported, because its response has no error.
    """
    results = response.results_by_topic_v3_and_below
    transactional_id = request.v3_and_below_transactional_id
    has_errors = _has_errors(results)
    if not has_errors and noted.listener.is_held_by(transactional_id, noted.asker):
        return
    partitions, count = _named(request.v3_and_below_topics)
    if not count:
        return
    noted.listener.happened(
        Happened(
            time_ms=come_ms,
            kind=_REQUEST,
            asker=noted.asker,
            transactional_id=transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            error=_error_of(results) if has_errors else _NONE,
            partitions=first_partitions(partitions),
            partition_count=count,
        )
    )


def _add_partitions_by_broker(noted: _Noted, ports: Ports, come_ms: int, request: Any, response: Any) -> None:
    """Report refused transactions of a request from a partition leader, which owns none of the transactional ids."""
    # `zip` is not strict, because a response with an error for the whole request has no results.
    each = zip(request.transactions, response.results_by_transaction, strict=False)
    refused = ((one, result.topic_results) for one, result in each if _has_errors(result.topic_results))
    for one, topics in islice(refused, TRANSACTIONS_REPORTED):
        partitions, count = _named(one.topics)
        noted.listener.happened(
            Happened(
                time_ms=come_ms,
                kind=_REQUEST,
                asker=noted.asker,
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                error=_error_of(topics),
                partitions=first_partitions(partitions),
                partition_count=count,
            )
        )


def _named(topics: list[Any]) -> tuple[list[TopicPartition], int]:
    """Return the first `PARTITIONS_KEPT` partitions, and the number of partitions."""
    named: list[TopicPartition] = []
    count = 0
    for topic in topics:
        indexes = topic.partitions
        count += len(indexes)
        named += zip(repeat(topic.name), indexes[: PARTITIONS_KEPT - len(named)])
    return named, count


def _has_errors(results: Iterable[Any]) -> bool:
    """Whether any partition has an error. Called for each transaction of older clients, so it avoids a slow generator."""
    for topic in results:
        for partition in topic.results_by_partition:
            if partition.partition_error_code:
                return True
    return False


def _error_of(results: Iterable[Any]) -> int:
    return _first_error(partition.partition_error_code for topic in results for partition in topic.results_by_partition)


def _first_error(errors: Iterable[int]) -> int:
    """The most informative error: OPERATION_NOT_ATTEMPTED only means that another partition has an error."""
    kinds = set(islice(errors, ERRORS_READ))
    kinds.discard(_NONE)
    if not kinds:
        return _NONE
    return min(kinds - {Code.OPERATION_NOT_ATTEMPTED}, default=min(kinds))


_REPORTS: dict[int, Callable[[_Noted, Ports, int, Any, Any], None]] = {
    _INIT_PRODUCER_ID: _init_producer_id,
    _ADD_PARTITIONS: _add_partitions,
    _ADD_OFFSETS: _add_offsets,
    _END: _end,
    _COMMIT_OFFSETS: _commit_offsets,
}
