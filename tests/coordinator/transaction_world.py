"""A transaction coordinator without a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.coordinator.result import Effect, LogRecord
from ottla.coordinator.transaction.effects import CountDecision, SendMarkers
from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch, TxnConfig
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.protocol.errors import Code, KafkaError
from tests.support.world import ShardWorld

ID = "shop"
P0, P1 = ("invoices", 0), ("shipments", 0)


@dataclass
class TransactionWorld(ShardWorld[TransactionShard]):
    """A shard of transactional ids. After each result, its live state is compared with a reload of its log."""

    version: int = 2

    def new_shard(self) -> TransactionShard:
        return TransactionShard(0, TxnConfig(), self.version)

    def replay(self, shard: TransactionShard, record: LogRecord, offset: int) -> None:
        shard.replay(record)

    def apply(self, effect: Effect) -> None:
        if not isinstance(effect, CountDecision | SendMarkers):
            self.shard.apply(effect)

    def snapshot(self) -> Any:
        return dict(self.shard.ids), dict(self.shard._last_epochs), dict(self.shard._unfinished)

    def check_reloaded(self) -> TransactionShard:
        again = self.reloaded()
        assert {i: m.logged() for i, m in self.shard.ids.items()} == again.ids
        return again

    def check(self) -> None:
        self.check_reloaded()

    def new_producer_id(self) -> int:
        self.last_id += 1
        return 100 + self.last_id

    def init(self, expected: ProducerIdAndEpoch | None = None, timeout_ms: int = 60_000) -> ProducerIdAndEpoch:
        answer = self.run(self.shard.init_producer_id(ID, timeout_ms, expected, self.now_ms, self.new_producer_id))
        if answer.aborting:
            raise KafkaError(Code.CONCURRENT_TRANSACTIONS)
        return answer.identity

    def add(self, who: ProducerIdAndEpoch, *partitions: tuple[str, int]) -> None:
        self.run(self.shard.add_partitions(ID, who, partitions or (P0,), self.now_ms, 2))

    def end(self, who: ProducerIdAndEpoch, *, commit: bool, v5: bool = True, finish: bool = True) -> ProducerIdAndEpoch:
        result = self.shard.end_txn(
            ID,
            who,
            commit=commit,
            client_transaction_version=2 if v5 else 0,
            now_ms=self.now_ms,
            new_producer_id=self.new_producer_id,
        )
        answer = self.run(result)
        if answer.refused:
            raise KafkaError(answer.refused)
        if finish and SendMarkers(ID) in result.effects:
            self.finish()
        return answer.identity

    def finish(self) -> None:
        self.run(self.shard.complete(ID, self.now_ms))

    @property
    def meta(self) -> TxnMetadata:
        return self.shard.ids[ID]
