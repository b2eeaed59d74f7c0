"""Counts a broker's instructions for one request or transaction: ``python -m benchmarks.instructions [--functions 30]``.

The broker has no sockets, disk and clock, so all figures are the same in each run, even on a busy machine. The table has bytecode
instructions, calls of Python functions, and appends to files. ``--functions`` lists the functions with the most instructions.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from ottla.protocol.codec import request_frame
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import api_key
from ottla.simulation.memory_filesystem import MemoryFile

TRANSACTIONAL_ID = "counted"
GROUP = "counted"
TOPIC = "counted"
WARM_UP_ROUNDS = 20
Trace = Callable[[FrameType, str, Any], Any]


class Load:
    """A client of a new broker whose topic has ``partitions``, with one transactional producer (transaction version 2)."""

    def __init__(self, partitions: int, settings: dict[str, str] | None = None) -> None:
        self.trace: Trace | None = None
        """The trace function (`sys.settrace`) while the broker handles a request."""
        self.broker = SimulatedBroker(settings).start()
        self._client = self.broker.connect()
        self._call(CreateTopicsRequest([CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)]), 7)
        self._call(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)
        self._call(FindCoordinatorRequest(key_type=1, coordinator_keys=[TRANSACTIONAL_ID]), 4)
        identity = self._call(InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000), 5)
        self._producer_id, self._epoch = identity.producer_id, identity.producer_epoch
        self._topic_id = self.broker.broker.cluster.state.topics[TOPIC].topic_id

    def _call(self, request: Any, version: int) -> Any:
        key = api_key(request)
        frame = request_frame(key, version, 1, "counting", request)
        previous = sys.gettrace()
        sys.settrace(self.trace)
        try:
            self._client.send_bytes(frame)
        finally:
            sys.settrace(previous)
        return self._client.receive((key, version))

    def _produce(self, partitions: int, **options: Any) -> None:
        """Send a batch of two records to each of the first ``partitions`` partitions."""
        data = []
        for index in range(partitions):
            batch = build_batch([(b"key", bytes(100))] * 2, self.broker.now_ms(), **options)
            data.append(PartitionProduceData(index=index, records=memoryview(batch)))
        transactional_id = TRANSACTIONAL_ID if options else None
        topics = [TopicProduceData(topic_id=self._topic_id, partition_data=data)]
        produced = self._call(ProduceRequest(transactional_id, acks=-1, timeout_ms=1_000, topic_data=topics), 13)
        for result in produced.responses[0].partition_responses:
            assert not result.error_code, result

    def _commit(self) -> None:
        request = EndTxnRequest(TRANSACTIONAL_ID, producer_id=self._producer_id, producer_epoch=self._epoch, committed=True)
        ended = self._call(request, 5)
        assert not ended.error_code, ended
        self._producer_id, self._epoch = ended.producer_id, ended.producer_epoch

    def produce(self) -> None:
        self._produce(1)

    def fetch(self) -> None:
        end_offset = self.broker.broker.partitions.get(TOPIC, 0).log.log_end_offset
        partition = FetchPartition(partition=0, fetch_offset=end_offset - 1, partition_max_bytes=1 << 20)
        self._call(
            FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic_id=self._topic_id, partitions=[partition])]), 16
        )

    def transaction(self, partitions: int = 1, *, with_offsets: bool = False) -> None:
        producer = {"producer_id": self._producer_id, "producer_epoch": self._epoch}
        self._produce(partitions, **producer, base_sequence=0, transactional=True)
        if with_offsets:
            offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
            topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[offset])]
            request = TxnOffsetCommitRequest(TRANSACTIONAL_ID, group_id=GROUP, **producer, topics=topics)
            committed = self._call(request, 5)
            assert not committed.topics[0].partitions[0].error_code, committed
        self._commit()


class Counted:
    """Counts for one kind of work, per repetition."""

    def __init__(self, load: Load, work: Callable[[], None], rounds: int) -> None:
        for _ in range(WARM_UP_ROUNDS):
            work()
        self.calls: Counter[CodeType] = Counter()
        self.instructions: Counter[CodeType] = Counter()
        self._appends = 0
        self._rounds = rounds
        gc.disable()
        load.trace = self._trace
        try:
            for _ in range(rounds):
                work()
        finally:
            load.trace = None
            gc.enable()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Trace | None:
        code = frame.f_code
        if "/simulation/" in code.co_filename:
            self._appends += code is MemoryFile.append.__code__
            return None
        if event == "opcode":
            self.instructions[code] += 1
        elif event == "call":
            self.calls[code] += 1
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._trace

    @property
    def cells(self) -> list[str]:
        figures = (self.instructions.total(), self.calls.total(), self._appends)
        return [f"{figure / self._rounds:,.0f}" for figure in figures]

    def functions(self, count: int) -> list[list[str]]:
        """Return the functions with the most instructions, as rows of a table."""
        rows = []
        for code, instructions in self.instructions.most_common(count):
            where = f"{'/'.join(Path(code.co_filename).parts[-2:])}: {code.co_qualname}"
            rows.append([where, f"{instructions / self._rounds:,.1f}", f"{self.calls[code] / self._rounds:,.1f}"])
        return rows


def _print(console: Console, columns: list[str], rows: list[list[str]]) -> None:
    table = Table(*columns)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--functions", type=int, default=0, metavar="COUNT", help="list the functions with the most instructions")
    parser.add_argument("--of", default="transaction, 1 partition", help="what the functions are listed for: a name from the table")
    options = parser.parse_args()
    load = Load(partitions=64)
    kinds: dict[str, Callable[[], None]] = {
        "transaction, 1 partition": load.transaction,
        "transaction, 1 partition and offsets": lambda: load.transaction(with_offsets=True),
        "transaction, 8 partitions": lambda: load.transaction(8),
        "transaction, 64 partitions": lambda: load.transaction(64),
        "Produce": load.produce,
        "Fetch": load.fetch,
    }
    counted = {name: Counted(load, work, options.rounds) for name, work in kinds.items()}
    console = Console(width=140)
    _print(console, ["", "instructions", "calls", "appends"], [[name, *figures.cells] for name, figures in counted.items()])
    if options.functions:
        rows = counted[options.of].functions(options.functions)
        _print(console, ["function", "instructions", "calls"], rows)
    load.broker.abandon()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
