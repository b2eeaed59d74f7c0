"""The cost of the unused control API: no Python function call for faults, under 2 % more bytecode instructions for the history."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import pytest

from ottla.control.faults.registry import Fault, Faults
from ottla.control.history import EventHistory
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS
from tests.support.raw_client import create

TIMES = 10


@contextmanager
def counting() -> Iterator[Callable[[], int]]:
    """Return a function that tells how many Python functions have been called in the block so far.

    Garbage collection is disabled in the block: it happens at unpredictable times, and its callbacks, such as Hypothesis's, would
    be counted as the requests' cost.
    """
    count = 0

    def counted(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    gc.disable()
    try:
        sys.setprofile(counted)
        yield lambda: count
    finally:
        sys.setprofile(None)
        gc.enable()


@contextmanager
def counting_instructions() -> Iterator[Callable[[], int]]:
    """Return a function that tells how many bytecode instructions have run in the block. The number is reproducible."""
    count = 0

    def counted(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return counted

    before = sys.gettrace()
    gc.disable()
    try:
        sys.settrace(counted)
        yield lambda: count
    finally:
        sys.settrace(before)
        gc.enable()


def calls(client: SimulatedClient, *requests: tuple[Any, int]) -> int:
    """Return how many Python functions run for the requests, from request bytes to response bytes."""
    for request, version in requests:
        client.call(request, version)
    with counting() as counted:
        for _ in range(1, TIMES):
            for request, version in requests:
                client.call(request, version)
    return counted()


def produced() -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=bytes(build_batch([(None, b"v")], START_MS)))]
    return ProduceRequest(transactional_id=None, acks=-1, topic_data=[TopicProduceData(name="t", partition_data=data)])


def fetched() -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    return FetchRequest(replica_id=-1, topics=[FetchTopic(topic="t", partitions=[partition])])


def counts(interception: Faults | None, history: EventHistory | None = None) -> dict[str, int]:
    broker = SimulatedBroker(interception=interception, transaction_listener=history).start().with_coordinators()
    with broker.connect() as client:
        create(cast(Any, client), "t")
        producer = client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4)
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        end = EndTxnRequest(
            transactional_id="x", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, committed=True
        )
        counted = {
            "Produce": calls(client, (produced(), 9)),
            "Fetch": calls(client, (fetched(), 9)),
            "a transaction": calls(client, (add, 3), (end, 3)),
        }
        assert client.call(end, 3).error_code == 0
    broker.close()
    return counted


def test_request_without_matching_faults_calls_no_fault_code() -> None:
    without, idle, others = counts(None), Faults(), Faults()
    assert min(without.values()) > 10 * TIMES
    assert counts(idle) == without
    others.add(Fault(api="JoinGroup", error="REBALANCE_IN_PROGRESS"))
    assert counts(others) == without


TRANSACTIONS = 20


def instructions(history: EventHistory | None, version: int, *, has_record: bool) -> int:
    """Return how many bytecode instructions `TRANSACTIONS` transactions need, on both sides of a connection without a socket."""
    broker = SimulatedBroker(transaction_listener=history).start().with_coordinators()
    count = 0
    with broker.connect() as client:
        create(cast(Any, client), "t")
        init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        producer = client.call(init, 5 if version == 2 else 4)
        sequence = 0
        for rounds in range(TRANSACTIONS):
            who = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
            batch = build_batch([(None, b"v")], START_MS, **who, base_sequence=sequence, transactional=True)
            data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=bytes(batch))])]
            produce = ProduceRequest(transactional_id="x", acks=-1, topic_data=data)
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
            )
            end = EndTxnRequest(transactional_id="x", **who, committed=True)
            with counting_instructions() as counted:
                if version < 2:
                    client.call(add, 3)
                if has_record:
                    client.call(produce, 12 if version == 2 else 11)
                ended = client.call(end, 5 if version == 2 else 4)
            assert ended.error_code == 0
            if version == 2:
                producer = ended
            else:
                sequence += 1
            # The first transaction is not counted, because it imports handlers.
            count += counted() if rounds else 0
    if history is not None:
        # Unsorted events are sorted into each id's ring buffer when the history is read. That cost is included.
        with counting_instructions() as counted:
            assert history.size_bytes > 0
        count += counted()
    broker.close()
    assert broker.bugs == 0
    return count


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("version", "has_record"), [(2, True), (1, True), (1, False)], ids=["version-2", "older-clients", "nothing-in-it"]
)
def test_history_slows_a_transaction_by_less_than_two_percent(version: int, has_record: bool) -> None:
    without = instructions(None, version, has_record=has_record)
    kept = instructions(EventHistory(), version, has_record=has_record)
    assert without < kept < 1.02 * without


def test_history_does_not_slow_requests_without_transactions() -> None:
    without, kept = counts(None), counts(None, EventHistory())
    for name in ("Produce", "Fetch"):
        assert kept[name] == without[name]
    # The worst case: a transaction without a record, and with a client that adds partitions itself.
    assert without["a transaction"] < kept["a transaction"] < 1.05 * without["a transaction"]
