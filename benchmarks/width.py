"""Measures a transaction's time by its number of partitions: ``python -m benchmarks.width [--partitions 1,2,10,50,200]``.

Each transaction is one Produce request with a batch for each partition, and a commit. The broker runs in this process, with a
simulated network and a disk in memory, so that only the broker's own work is measured.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from typing import Any

import structlog
from rich.console import Console
from rich.table import Table

from ottla.protocol.java_hash import partition_for
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker

STATE_PARTITIONS = 1
WARM_UP = 5
PRODUCE_VERSION, END_VERSION = 12, 5
"""Versions of Produce and EndTxn that begin transaction version 2."""


def produce_request(topic: str, partitions: int, producer: Any, now_ms: int) -> ProduceRequest:
    """Build one batch for each partition. Each transaction has a new epoch, so sequences begin at 0."""
    batch = build_batch(
        [(None, b"v" * 100)],
        now_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    data = [PartitionProduceData(index=index, records=bytes(batch)) for index in range(partitions)]
    return ProduceRequest(
        transactional_id="x", acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(topic, partition_data=data)]
    )


def measure(partitions: int, rounds: int) -> tuple[float, float, float]:
    """Return the median times of the Produce request and of the whole transaction in ms, and the number of records per transaction
    in the coordinator's log."""
    broker = SimulatedBroker({"transaction.state.log.num.partitions": str(STATE_PARTITIONS)}).start()
    produced_ms, whole_ms = [], []
    with broker.connect() as client:
        client.call(
            CreateTopicsRequest([CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)], timeout_ms=1_000)
        )
        client.call(FindCoordinatorRequest(key="x", key_type=1), 3)
        producer = client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000))
        log = broker.broker.partitions.get("__transaction_state", partition_for("x", STATE_PARTITIONS)).log
        before = log.log_end_offset
        for _ in range(WARM_UP + rounds):
            request = produce_request("t", partitions, producer, broker.now_ms())
            began_s = time.perf_counter()
            answer = client.call(request, PRODUCE_VERSION)
            produced_s = time.perf_counter()
            end = EndTxnRequest(
                transactional_id="x", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, committed=True
            )
            producer = client.call(end, END_VERSION)
            whole_ms.append((time.perf_counter() - began_s) * 1_000)
            produced_ms.append((produced_s - began_s) * 1_000)
            if producer.error_code or any(p.error_code for p in answer.responses[0].partition_responses):
                raise SystemExit(f"A transaction over {partitions} partitions failed.")
        records = (log.log_end_offset - before) / (WARM_UP + rounds)
    broker.abandon()
    return statistics.median(produced_ms[WARM_UP:]), statistics.median(whole_ms[WARM_UP:]), records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", default="1,2,10,50,200", help="Numbers of partitions, separated by commas.")
    parser.add_argument("--rounds", type=int, default=40, help="Transactions measured for each number.")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    table = Table("partitions", "Produce, ms", "transaction, ms", "to the first row", "coordinator's records")
    first_ms = None
    for partitions in map(int, options.partitions.split(",")):
        produced_ms, whole_ms, records = measure(partitions, options.rounds)
        first_ms = first_ms or whole_ms
        table.add_row(str(partitions), f"{produced_ms:.2f}", f"{whole_ms:.2f}", f"{whole_ms / first_ms:.1f}", f"{records:g}")
    Console().print(table)


if __name__ == "__main__":
    main()
