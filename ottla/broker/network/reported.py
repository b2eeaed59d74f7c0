"""Tells a `TransactionListener` of the requests about transactional ids and of their answers.

A connection takes the declaration that `reported` makes in place of the API's own. So requests of other APIs, and all requests of a
broker that has no listener, cost nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import GeneratorType
from typing import Any, Protocol

import msgspec

from ottla.broker.api import Declaration, RequestContext
from ottla.broker.cluster import Cluster
from ottla.broker.env import Clock
from ottla.broker.later import Later
from ottla.broker.transaction_history import Happened, Kind, TransactionListener, first_partitions
from ottla.protocol.errors import Code, KafkaError
from ottla.storage.steps import Steps

TRANSACTIONS_REPORTED = 100
"""How many transactions of one AddPartitionsToTxn request are reported. Only brokers name more than one in a request."""
ERRORS_READ = 1_000
"""How many errors of one answer are read. A larger answer has the same error in most of its elements."""
_INIT_PRODUCER_ID, _ADD_PARTITIONS, _ADD_OFFSETS, _END, _COMMIT_OFFSETS = 22, 24, 25, 26, 28


Fields = dict[str, Any]
"""Fields of a `Happened` that depend on the API."""


class Ports(Protocol):
    clock: Clock
    cluster: Cluster


def reported(declared: Declaration, listener: TransactionListener) -> Declaration:
    """The declaration of an API whose requests are reported; that of another API as it is."""
    if declared.key not in _FIELDS_BY_KEY:
        return declared
    fields_of, name = _FIELDS_BY_KEY[declared.key], declared.name

    def handle(ports: Ports, request: Any, context: RequestContext) -> Any:
        come_ms = ports.clock.now_ms()

        def report(response: Any) -> None:
            for fields in fields_of(ports, request, response, context.version):
                listener.happened(
                    Happened(
                        time_ms=come_ms,
                        kind=Kind.REQUEST,
                        api=name,
                        version=context.version,
                        client_id=context.client_id,
                        client_host=context.client_host,
                        **fields,
                    )
                )

        def failed(error: KafkaError) -> None:
            report(declared.failed(request, context.version, error.code))

        def in_steps(steps: Steps[Any]) -> Steps[Any]:
            try:
                response = yield from steps
            except KafkaError as error:
                failed(error)
                raise
            report(response)
            return response

        try:
            response = declared.handle(ports, request, context)  # type: ignore[arg-type]
        except KafkaError as error:
            failed(error)
            raise
        if type(response) is GeneratorType:
            return in_steps(response)
        if type(response) is not Later:
            report(response)
            return response
        answer = Later(is_durable=response.is_durable, on_abandoned=response.abandon)

        def on_response(later_response: Any) -> None:
            report(later_response)
            answer.is_large = response.is_large
            answer.resolve(later_response)

        response.on_ready(on_response)
        return answer

    return msgspec.structs.replace(declared, handle=handle)


def _init_producer_id(ports: Ports, request: Any, response: Any, version: int) -> Iterator[Fields]:
    if request.transactional_id:
        yield {
            "transactional_id": request.transactional_id,
            "producer_id": request.producer_id,
            "producer_epoch": request.producer_epoch,
            "error": Code(response.error_code),
            "new_producer_id": response.producer_id,
            "new_producer_epoch": response.producer_epoch,
        }


def _end(ports: Ports, request: Any, response: Any, version: int) -> Iterator[Fields]:
    yield {
        "transactional_id": request.transactional_id,
        "producer_id": request.producer_id,
        "producer_epoch": request.producer_epoch,
        "error": Code(response.error_code),
        "outcome": "commit" if request.committed else "abort",
        "new_producer_id": response.producer_id,
        "new_producer_epoch": response.producer_epoch,
    }


def _add_offsets(ports: Ports, request: Any, response: Any, version: int) -> Iterator[Fields]:
    yield {
        "transactional_id": request.transactional_id,
        "producer_id": request.producer_id,
        "producer_epoch": request.producer_epoch,
        "error": Code(response.error_code),
        "group_id": request.group_id,
    }


def _commit_offsets(ports: Ports, request: Any, response: Any, version: int) -> Iterator[Fields]:
    named = ports.cluster.state.topics_by_id

    def name(topic: Any) -> str:
        return topic.name or (named[topic.topic_id].name if topic.topic_id in named else "")

    yield {
        "transactional_id": request.transactional_id,
        "producer_id": request.producer_id,
        "producer_epoch": request.producer_epoch,
        "error": _first_error(p.error_code for topic in response.topics for p in topic.partitions),
        "group_id": request.group_id,
        "partitions": first_partitions((name(topic), p.partition_index) for topic in request.topics for p in topic.partitions),
        "partition_count": sum(len(topic.partitions) for topic in request.topics),
    }


def _add_partitions(ports: Ports, request: Any, response: Any, version: int) -> Iterator[Fields]:
    if version < 4:
        yield _added(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            request.v3_and_below_topics,
            response.results_by_topic_v3_and_below,
        )
        return
    results = {result.transactional_id: result.topic_results for result in response.results_by_transaction}
    for asked in request.transactions[:TRANSACTIONS_REPORTED]:
        answered = results.get(asked.transactional_id, ())
        yield _added(asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.topics, answered)


def _added(transactional_id: str, producer_id: int, epoch: int, topics: list[Any], results: Iterable[Any]) -> Fields:
    return {
        "transactional_id": transactional_id,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "error": _first_error(p.partition_error_code for topic in results for p in topic.results_by_partition),
        "partitions": first_partitions((topic.name, index) for topic in topics for index in topic.partitions),
        "partition_count": sum(len(topic.partitions) for topic in topics),
    }


def _first_error(codes: Iterable[int]) -> Code:
    """The error that says most: OPERATION_NOT_ATTEMPTED only says that another partition has an error."""
    errors = {code for code in islice(codes, ERRORS_READ) if code}
    worst = min(errors - {Code.OPERATION_NOT_ATTEMPTED}, default=min(errors, default=0))
    return Code(worst)


_FIELDS_BY_KEY: dict[int, Callable[[Ports, Any, Any, int], Iterator[Fields]]] = {
    _INIT_PRODUCER_ID: _init_producer_id,
    _ADD_PARTITIONS: _add_partitions,
    _ADD_OFFSETS: _add_offsets,
    _END: _end,
    _COMMIT_OFFSETS: _commit_offsets,
}
