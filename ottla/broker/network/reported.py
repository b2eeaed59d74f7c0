"""Tells a `TransactionListener` of the requests about transactional ids and of their answers.

A connection takes the declaration that `reported` makes for it in place of the API's own. So requests of other APIs, and all
requests of a broker that has no listener, cost nothing more. A transaction passes here two to four times, so each function makes
its event by itself, of what is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice, repeat
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
_REQUEST, _NONE = Kind.REQUEST, int(Code.NONE)
"""Kept apart because Python calls a function each time that a member of an enumeration is looked up by its name."""
_UNFINISHED = frozenset((GeneratorType, Later))
"""What a handler returns in place of a response that is to come."""
BROKERS_FROM = 4
"""The first version of AddPartitionsToTxn that brokers send, with several transactions in a request."""
_INIT_PRODUCER_ID, _ADD_PARTITIONS, _ADD_OFFSETS, _END, _COMMIT_OFFSETS = 22, 24, 25, 26, 28


class Ports(Protocol):
    clock: Clock
    cluster: Cluster


class _Noted(msgspec.Struct, frozen=True):
    """Who has asked, and who learns of that: the same for all requests of one API and version on a connection."""

    listener: TransactionListener
    asker: Asker


def reported(declared: Declaration, listener: TransactionListener, context: RequestContext) -> Declaration:
    """The declaration of an API whose requests are reported, for those of one client; that of another API as it is."""
    version = context.version
    report = _REPORTS.get(declared.key)
    if report is None:
        return declared
    if report is _add_partitions and version >= BROKERS_FROM:
        report = _add_partitions_by_broker
    asker = Asker(client_id=cut(context.client_id), client_host=context.client_host, api=declared.name, version=version)
    noted = _Noted(listener, asker)
    handle_request: Any = declared.handle

    def report_error(ports: Ports, come_ms: int, request: Any, error: KafkaError) -> None:
        report(noted, ports, come_ms, request, declared.failed(request, version, error.code))

    def in_steps(ports: Ports, come_ms: int, request: Any, steps: Steps[Any]) -> Steps[Any]:
        try:
            response = yield from steps
        except KafkaError as error:
            report_error(ports, come_ms, request, error)
            raise
        report(noted, ports, come_ms, request, response)
        return response

    def once_ready(ports: Ports, come_ms: int, request: Any, response: Later) -> Later:
        answer = Later(is_durable=response.is_durable, on_abandoned=response.abandon)

        def on_response(later_response: Any) -> None:
            report(noted, ports, come_ms, request, later_response)
            answer.is_large = response.is_large
            answer.resolve(later_response)

        response.on_ready(on_response)
        return answer

    def handle(ports: Ports, request: Any, context: RequestContext) -> Any:
        come_ms = ports.clock.now_ms()
        try:
            response = handle_request(ports, request, context)
        except KafkaError as error:
            report_error(ports, come_ms, request, error)
            raise
        if type(response) in _UNFINISHED:
            wait = in_steps if type(response) is GeneratorType else once_ready
            return wait(ports, come_ms, request, response)
        report(noted, ports, come_ms, request, response)
        return response

    return msgspec.structs.replace(declared, handle=handle)


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
    noted.listener.happened(
        Happened(
            time_ms=come_ms,
            kind=_REQUEST,
            asker=noted.asker,
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            error=response.error_code,
            outcome="commit" if request.committed else "abort",
            new_producer_id=response.producer_id,
            new_producer_epoch=response.producer_epoch,
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
    results = response.results_by_topic_v3_and_below
    # All partitions are added or none, so where the first has no error none has.
    is_added = results and (first := results[0].results_by_partition) and not first[0].partition_error_code
    partitions, count = _named(request.v3_and_below_topics)
    noted.listener.happened(
        Happened(
            time_ms=come_ms,
            kind=_REQUEST,
            asker=noted.asker,
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            error=_NONE if is_added else _error_of(results),
            # The name of a topic that exists is no longer than `TEXT_CHARACTERS`.
            partitions=partitions if is_added else first_partitions(partitions),
            partition_count=count,
        )
    )


def _add_partitions_by_broker(noted: _Noted, ports: Ports, come_ms: int, request: Any, response: Any) -> None:
    """Versions that only brokers send, for several transactions at once."""
    results = {result.transactional_id: result.topic_results for result in response.results_by_transaction}
    for one in request.transactions[:TRANSACTIONS_REPORTED]:
        partitions, count = _named(one.topics)
        noted.listener.happened(
            Happened(
                time_ms=come_ms,
                kind=_REQUEST,
                asker=noted.asker,
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                error=_error_of(results.get(one.transactional_id, ())),
                partitions=first_partitions(partitions),
                partition_count=count,
            )
        )


def _named(topics: list[Any]) -> tuple[list[TopicPartition], int]:
    """The first partitions, and how many there are."""
    named: list[TopicPartition] = []
    count = 0
    for topic in topics:
        indexes = topic.partitions
        count += len(indexes)
        named += zip(repeat(topic.name), indexes[: PARTITIONS_KEPT - len(named)])
    return named, count


def _error_of(results: Iterable[Any]) -> int:
    return _first_error(partition.partition_error_code for topic in results for partition in topic.results_by_partition)


def _first_error(errors: Iterable[int]) -> int:
    """The error that says most: OPERATION_NOT_ATTEMPTED only says that another partition has an error."""
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
