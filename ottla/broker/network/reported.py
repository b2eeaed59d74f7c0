"""Tells a `TransactionListener` of the requests about transactional ids and of their answers.

A connection takes the declaration that `reported` makes for it in place of the API's own. So requests of other APIs, and all
requests of a broker that has no listener, cost nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter
from types import GeneratorType
from typing import Any, Protocol

import msgspec

from ottla.broker.api import Declaration, RequestContext
from ottla.broker.cluster import Cluster
from ottla.broker.env import Clock
from ottla.broker.later import Later
from ottla.broker.transaction_history import (
    PARTITIONS_KEPT,
    Asker,
    Happened,
    Kind,
    TransactionListener,
    cut,
    first_partitions,
)
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.steps import Steps

TRANSACTIONS_REPORTED = 100
"""How many transactions of one AddPartitionsToTxn request are reported. Only brokers name more than one in a request."""
ERRORS_READ = 1_000
"""How many errors of one answer are read. A larger answer has the same error in most of its elements."""
_INIT_PRODUCER_ID, _ADD_PARTITIONS, _ADD_OFFSETS, _END, _COMMIT_OFFSETS = 22, 24, 25, 26, 28


class Ports(Protocol):
    clock: Clock
    cluster: Cluster


class _Asked(msgspec.Struct, frozen=True):
    """A request that has come: what is known of it before it is handled."""

    ports: Ports
    asker: Asker
    come_ms: int
    request: Any


def reported(declared: Declaration, listener: TransactionListener, context: RequestContext) -> Declaration:
    """The declaration of an API whose requests are reported, for those of one client; that of another API as it is."""
    read = _EVENTS.get(declared.key)
    if read is None:
        return declared
    asker = Asker(client_id=cut(context.client_id), client_host=context.client_host, api=declared.name, version=context.version)
    handle_request: Any = declared.handle

    def report(asked: _Asked, response: Any) -> None:
        for event in read(asked, response):
            listener.happened(event)

    def report_error(asked: _Asked, error: KafkaError) -> None:
        report(asked, declared.failed(asked.request, asker.version, error.code))

    def in_steps(asked: _Asked, steps: Steps[Any]) -> Steps[Any]:
        try:
            response = yield from steps
        except KafkaError as error:
            report_error(asked, error)
            raise
        report(asked, response)
        return response

    def once_ready(asked: _Asked, response: Later) -> Later:
        answer = Later(is_durable=response.is_durable, on_abandoned=response.abandon)

        def on_response(later_response: Any) -> None:
            report(asked, later_response)
            answer.is_large = response.is_large
            answer.resolve(later_response)

        response.on_ready(on_response)
        return answer

    def handle(ports: Ports, request: Any, context: RequestContext) -> Any:
        asked = _Asked(ports, asker, ports.clock.now_ms(), request)
        try:
            response = handle_request(ports, request, context)
        except KafkaError as error:
            report_error(asked, error)
            raise
        if type(response) is GeneratorType:
            return in_steps(asked, response)
        if type(response) is Later:
            return once_ready(asked, response)
        report(asked, response)
        return response

    return msgspec.structs.replace(declared, handle=handle)


def _event(asked: _Asked, **fields: Any) -> Happened:
    """The event of a request that names one transactional id, with its producer id and epoch."""
    request = asked.request
    return Happened(
        time_ms=asked.come_ms,
        kind=Kind.REQUEST,
        asker=asked.asker,
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        **fields,
    )


def _init_producer_id(asked: _Asked, response: Any) -> tuple[Happened, ...]:
    if not asked.request.transactional_id:
        return ()
    return (
        _event(
            asked,
            error=response.error_code,
            new_producer_id=response.producer_id,
            new_producer_epoch=response.producer_epoch,
        ),
    )


def _end(asked: _Asked, response: Any) -> tuple[Happened, ...]:
    request = asked.request
    return (
        _event(
            asked,
            error=response.error_code,
            outcome="commit" if request.committed else "abort",
            new_producer_id=response.producer_id,
            new_producer_epoch=response.producer_epoch,
        ),
    )


def _add_offsets(asked: _Asked, response: Any) -> tuple[Happened, ...]:
    request = asked.request
    return (
        _event(
            asked,
            error=response.error_code,
            group_id=cut(request.group_id),
        ),
    )


def _commit_offsets(asked: _Asked, response: Any) -> tuple[Happened, ...]:
    request, named = asked.request, asked.ports.cluster.state.topics_by_id

    def name(topic: Any) -> str:
        return topic.name or (named[topic.topic_id].name if topic.topic_id in named else "")

    return (
        _event(
            asked,
            error=_first_error(_in_each(response.topics, "partitions"), "error_code"),
            group_id=cut(request.group_id),
            partitions=first_partitions((name(topic), p.partition_index) for topic in request.topics for p in topic.partitions),
            partition_count=sum([len(topic.partitions) for topic in request.topics]),
        ),
    )


def _add_partitions(asked: _Asked, response: Any) -> Iterable[Happened]:
    request = asked.request
    if asked.asker.version < 4:
        added = _added(
            asked,
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            request.v3_and_below_topics,
            response.results_by_topic_v3_and_below,
        )
        return (added,)
    results = {result.transactional_id: result.topic_results for result in response.results_by_transaction}
    return [
        _added(asked, one.transactional_id, one.producer_id, one.producer_epoch, one.topics, results.get(one.transactional_id, ()))
        for one in request.transactions[:TRANSACTIONS_REPORTED]
    ]


def _added(
    asked: _Asked, transactional_id: str, producer_id: int, epoch: int, topics: list[Any], results: Iterable[Any]
) -> Happened:
    named: list[TopicPartition] = []
    count = 0
    for topic in topics:
        name, indexes = cut(topic.name), topic.partitions
        count += len(indexes)
        for index in indexes[: PARTITIONS_KEPT - len(named)]:
            named.append((name, index))
    return Happened(
        time_ms=asked.come_ms,
        kind=Kind.REQUEST,
        asker=asked.asker,
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        error=_first_error(_in_each(results, "results_by_partition"), "partition_error_code"),
        partitions=named,
        partition_count=count,
    )


def _in_each(topics: Iterable[Any], name: str) -> Iterator[Any]:
    return chain.from_iterable(map(attrgetter(name), topics))


def _first_error(partitions: Iterator[Any], name: str) -> int:
    """The error that says most: OPERATION_NOT_ATTEMPTED only says that another partition has an error."""
    errors = set(islice(map(attrgetter(name), partitions), ERRORS_READ))
    errors.discard(Code.NONE)
    return min(errors - {Code.OPERATION_NOT_ATTEMPTED}, default=min(errors)) if errors else Code.NONE


_EVENTS: dict[int, Callable[[_Asked, Any], Iterable[Happened]]] = {
    _INIT_PRODUCER_ID: _init_producer_id,
    _ADD_PARTITIONS: _add_partitions,
    _ADD_OFFSETS: _add_offsets,
    _END: _end,
    _COMMIT_OFFSETS: _commit_offsets,
}
