"""A commit that arrives before its batches gets a retriable error once. The coordinator remembers the commit when the result's
effect is executed."""

from __future__ import annotations

import pytest

from ottla.coordinator.result import Result
from ottla.coordinator.transaction.requests import Ended, ProducerIdAndEpoch
from ottla.protocol.errors import Code, KafkaError
from tests.coordinator.transaction.test_transactions import refused
from tests.coordinator.transaction_world import ID, TransactionWorld


def commit(world: TransactionWorld, who: ProducerIdAndEpoch) -> Result[Ended]:
    return world.shard.end_txn(
        ID, who, commit=True, client_transaction_version=2, now_ms=world.now_ms, new_producer_id=world.new_producer_id
    )


def test_commit_without_a_transaction_counts_as_retried_only_if_its_result_was_applied() -> None:
    world = TransactionWorld()
    who = world.init()
    for _ in range(3):
        assert commit(world, who).response.refused is Code.CONCURRENT_TRANSACTIONS
    with refused(Code.CONCURRENT_TRANSACTIONS):
        world.end(who, commit=True)
    with refused(Code.INVALID_TXN_STATE):
        commit(world, who)


@pytest.mark.parametrize("forgets", ["clear", "transaction"])
def test_commit_without_a_transaction_is_retriable_again_after_a_reload_or_a_transaction(forgets: str) -> None:
    world = TransactionWorld()
    who = world.init()
    with pytest.raises(KafkaError):
        world.end(who, commit=True)
    if forgets == "clear":
        world.shard.clear()
        for record in world.log:
            world.shard.replay(record)
    else:
        world.add(who)
        who = world.end(who, commit=False, v5=False)
    with refused(Code.CONCURRENT_TRANSACTIONS):
        world.end(who, commit=True)
