"""Scenario command for states that would take too long to reach.

It writes records into ``__transaction_state``, as an admin client may.
"""

from __future__ import annotations

from ottla.coordinator.transaction.metadata import TxnMetadata, to_record
from ottla.coordinator.transaction.states import BY_LABEL
from ottla.protocol.errors import Code
from ottla.protocol.java_hash import partition_for
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from tests.scenarios.verbs import verb
from tests.scenarios.views import PARTITIONS, TRANSACTION_TOPIC
from tests.scenarios.world import TIMEOUT_MS, TRANSACTION_TIMEOUT_MS, Actor, Words, World, name_of
from tests.support import oracle

ADMIN = "__admin_client"
"""The client id that may write to internal topics."""


@verb
def forge(world: World, words: Words) -> str:
    """Write a record of a transactional id, which the coordinator reads when the broker starts again.

    Command: ``A = forge x state=CompleteCommit epoch=32766 [as=Z] [partitions=t,u/1] [client=2]``.
    """
    name = world.real(words.plain[0])
    oracle.coordinator_known(world, name, oracle.TRANSACTION)
    now_ms = world.broker.now_ms()
    if "as" in words.options:
        pid, epoch = world.actors[words.options["as"]].pid, world.actors[words.options["as"]].epoch
    else:
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        pid = oracle.ready(world, asked, 5, lambda a: [a.error_code]).producer_id
        epoch = words.number("epoch", 0)
    metadata = TxnMetadata(
        name,
        pid,
        epoch,
        words.number("timeout", TRANSACTION_TIMEOUT_MS),
        BY_LABEL[words.options["state"]],
        frozenset(world.partition(p) for p in words.options.get("partitions", "").split(",") if p),
        start_ms=now_ms if words.options["state"] != "Empty" else -1,
        update_ms=now_ms,
        client_transaction_version=words.number("client", 2),
    )
    record = to_record(metadata, flexible=True)
    batch = build_batch([(record.key, record.value)], now_ms)
    data = PartitionProduceData(index=partition_for(name, PARTITIONS), records=bytes(batch))
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(TRANSACTION_TOPIC, partition_data=[data])],
    )
    admin = world.broker.connect(ADMIN)
    world.until(
        f"the record of {name!r} is stored",
        lambda: Code(admin.call(request, 9).responses[0].partition_responses[0].error_code),
        Code.NONE.__eq__,
    )
    admin.close()
    world.actors[words.name] = Actor(words.name, name, pid, epoch)
    return name_of(Code.NONE)
