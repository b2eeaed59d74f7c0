"""Scenario commands with which a producer, a consumer, another replica or a leader sends requests to a broker."""

from __future__ import annotations

from typing import Any

from ottla.protocol.errors import Code
from ottla.protocol.messages import register_broker_record as registering
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState
from ottla.protocol.messages.alter_partition import PartitionData as AlteredPartition
from ottla.protocol.messages.alter_partition import TopicData as AlteredTopic
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.records import batches, build_batch, read_records
from ottla.testing.cluster_handle import CONTROLLER
from tests.scenarios.several_verbs import numbers, shown_node, target, topic_id
from tests.scenarios.verbs import verb
from tests.scenarios.world import TIMEOUT_MS, Ask, Words, World, name_of

ALL_BYTES = 8 << 20
OBSERVER = 99
"""Replica id with which the controller's log is read, as a broker would."""
METADATA_TOPIC_ID = NO_UUID[:-1] + b"\x01"
DEBUGGING = -2
"""Replica id of a tool that reads uncommitted records (ListOffsetsRequest.DEBUGGING_REPLICA_ID)."""


def _current_leader(world: World, answer: Any, partition_response: Any) -> str:
    """Return the current leader in a response (KIP-951), and whether the response contains the leader's address."""
    current = getattr(partition_response, "current_leader", None)
    if current is None or (current.leader_id, current.leader_epoch) == (-1, -1):
        return ""
    addressed = " with its address" if any(n.node_id == current.leader_id for n in answer.node_endpoints or ()) else ""
    leader = "none" if current.leader_id < 0 else shown_node(world, current.leader_id)
    return f" leader={leader} e{current.leader_epoch}{addressed}"


@verb
def write(world: World, words: Words) -> Ask:
    """Produce records without a producer id; ``wait`` is the request's timeout in ms.

    Command: ``write t a,b [acks=-1] [wait=1500] [v=13]``.
    """
    name, index = world.partition(words.plain[0])
    values = words.plain[1].split(",")
    batch = build_batch([(None, value.encode()) for value in values], world.broker.now_ms())
    version = words.number("v", 12)
    data = TopicProduceData(
        name=name,
        topic_id=topic_id(world, name) if version >= 13 else NO_UUID,
        partition_data=[PartitionProduceData(index=index, records=bytes(batch))],
    )
    request = ProduceRequest(acks=words.number("acks", -1), timeout_ms=words.number("wait", TIMEOUT_MS), topic_data=[data])

    def show(answer: Any) -> str:
        p = answer.responses[0].partition_responses[0]
        base = f" @{p.base_offset}" if p.base_offset >= 0 else ""
        return f"{name_of(p.error_code)}{base}{_current_leader(world, answer, p)}"

    return Ask(request, version, show)


@verb
def pull(world: World, words: Words) -> Ask:
    """Send a Fetch request, as a consumer or as a replica.

    Command: ``pull t [from=0] [epoch=] [last=] [replica=3] [broker_epoch=+0] [rack=r2] [committed] [wait=ms] [v=17]``. ``epoch`` is
    the request's current leader epoch, and ``last`` is its last fetched epoch.
    """
    name, index = world.partition(words.plain[0])
    version = words.number("v", 17)
    asked = FetchPartition(
        partition=index,
        current_leader_epoch=words.number("epoch", -1),
        fetch_offset=words.number("from", 0),
        last_fetched_epoch=words.number("last", -1),
        partition_max_bytes=ALL_BYTES,
    )
    topic = FetchTopic(topic=name, topic_id=topic_id(world, name) if version >= 13 else NO_UUID, partitions=[asked])
    replica = words.number("replica", -1)
    request = FetchRequest(
        max_wait_ms=words.number("wait", 0),
        min_bytes=1,
        isolation_level=int(words.has("committed")),
        topics=[topic],
        replica_id=replica if version < 15 else -1,
        replica_state=ReplicaState(replica_id=replica, replica_epoch=_broker_epoch(world, words, replica)),
        rack_id=words.options.get("rack", ""),
    )

    def show(answer: Any) -> str:
        if answer.error_code:
            return f"whole request: {name_of(answer.error_code)}"
        return _pulled(world, answer, answer.responses[0].partitions[0])

    return Ask(request, version, show)


def _pulled(world: World, answer: Any, p: Any) -> str:
    if p.error_code:
        return name_of(p.error_code) + _current_leader(world, answer, p)
    raw = bytes(p.records or b"")
    pieces = [(h, raw[at : at + h.size_bytes]) for at, h in batches(raw)]
    values = ["marker" if h.is_control else (r.value or b"").decode() for h, piece in pieces for r in read_records(piece)]
    text = f"NONE {' '.join(values) or 'nothing'}"
    if p.diverging_epoch is not None and p.diverging_epoch.end_offset >= 0:
        text += f" diverging e{p.diverging_epoch.epoch} @{p.diverging_epoch.end_offset}"
    text += f" hw={p.high_watermark} lso={p.last_stable_offset} start={p.log_start_offset}"
    if p.preferred_read_replica >= 0:
        text += f" read from {p.preferred_read_replica}"
    if p.aborted_transactions:
        text += " aborted " + " ".join(f"{world.pid(a.producer_id)}@{a.first_offset}" for a in p.aborted_transactions)
    return text + _current_leader(world, answer, p)


@verb
def reaches(world: World, words: Words) -> str:
    """Wait until the high watermark of a replica has this value. Command: ``reaches t 2 on=3``."""
    name, index = world.partition(words.plain[0])
    asked = FetchPartition(partition=index, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=name, partitions=[asked])])
    wanted = int(words.plain[1])

    def known() -> tuple[str, int]:
        part = world.call(request, 12).responses[0].partitions[0]
        return name_of(part.error_code), part.high_watermark

    world.until(f"the high watermark of {name}/{index} is {wanted}", known, lambda shown: shown == ("NONE", wanted))
    return ""


@verb
def appended(world: World, words: Words) -> str:
    """Wait until the leader's log end offset has this value, whatever the high watermark is. Command: ``appended t 2``."""
    name, index = world.partition(words.plain[0])
    asked = ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1)
    request = ListOffsetsRequest(replica_id=DEBUGGING, isolation_level=0, topics=[ListOffsetsTopic(name=name, partitions=[asked])])
    wanted = int(words.plain[1])
    world.until(
        f"the log of {name}/{index} ends at {wanted}",
        lambda: world.call(request, 9).topics[0].partitions[0].offset,
        lambda end: end == wanted,
    )
    return ""


@verb
def offset(world: World, words: Words) -> Ask:
    """Send ListOffsets. Command: ``offset t [at=-1] [epoch=] [replica=] [committed] [v=9]``."""
    name, index = world.partition(words.plain[0])
    asked = ListOffsetsPartition(
        partition_index=index, current_leader_epoch=words.number("epoch", -1), timestamp=words.number("at", -1)
    )
    request = ListOffsetsRequest(
        replica_id=words.number("replica", -1),
        isolation_level=int(words.has("committed")),
        topics=[ListOffsetsTopic(name=name, partitions=[asked])],
    )

    def show(answer: Any) -> str:
        p = answer.topics[0].partitions[0]
        return name_of(p.error_code) if p.error_code else f"NONE @{p.offset} e{p.leader_epoch}"

    return Ask(request, words.version(9), show)


@verb
def epoch_end(world: World, words: Words) -> Ask:
    """Show the end offset of a leader epoch by OffsetForLeaderEpoch. Command: ``epoch_end t 0 [current=] [replica=] [v=4]``."""
    name, index = world.partition(words.plain[0])
    asked = OffsetForLeaderPartition(
        partition=index, current_leader_epoch=words.number("current", -1), leader_epoch=int(words.plain[1])
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=words.number("replica", -2), topics=[OffsetForLeaderTopic(topic=name, partitions=[asked])]
    )

    def show(answer: Any) -> str:
        p = answer.topics[0].partitions[0]
        return name_of(p.error_code) if p.error_code else f"NONE e{p.leader_epoch} @{p.end_offset}"

    return Ask(request, words.version(4), show)


# Commands that send a leader's requests to the controller.


@verb
def alter(world: World, words: Words) -> Ask:
    """Send AlterPartition as a leader does.

    Command: ``alter t isr=1,2 epoch=0 partition_epoch=0 from=1 [broker_epoch=+0] [of2=-1] [recovering]``. ``broker_epoch`` is added
    to the sender's broker epoch, and ``of2`` to the epoch of broker 2 in the new in-sync replicas.
    """
    words.options.setdefault("from", "1")
    name, index = world.partition(words.plain[0])
    epochs = broker_epochs(world)
    ids = [int(broker) for broker in words.options["isr"].split(",")]
    states = [BrokerState(broker_id=i, broker_epoch=epochs.get(i, 0) + words.number(f"of{i}", 0)) for i in ids]
    altered = AlteredPartition(
        partition_index=index,
        leader_epoch=words.number("epoch", 0),
        new_isr_with_epochs=states,
        leader_recovery_state=int(words.has("recovering")),
        partition_epoch=words.number("partition_epoch", 0),
    )
    sender = words.number("from", 1)
    request = AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=epochs.get(sender, 0) + words.number("broker_epoch", 0),
        topics=[AlteredTopic(topic_id=topic_id(world, name), partitions=[altered])],
    )

    def show(answer: Any) -> str:
        if answer.error_code:
            return f"whole request: {name_of(answer.error_code)}"
        p = answer.topics[0].partitions[0]
        if p.error_code:
            return name_of(p.error_code)
        return f"NONE leader={p.leader_id} e{p.leader_epoch} isr={numbers(p.isr)} partition_epoch={p.partition_epoch}"

    return Ask(request, 3, show)


def _broker_epoch(world: World, words: Words, broker: int) -> int:
    """Return the broker's epoch plus ``broker_epoch`` of the command, or -1 if the command has no such option."""
    return -1 if "broker_epoch" not in words.options else broker_epochs(world).get(broker, 0) + words.number("broker_epoch", 0)


def broker_epochs(world: World) -> dict[int, int]:
    """Return the broker epochs from the registrations in the controller's log."""
    epochs: dict[int, int] = {}
    at, last_epoch, leader_epoch = 0, 0, 0
    with target(world).on(CONTROLLER):
        while True:
            part = _metadata_records(world, at, last_epoch, leader_epoch)
            if part.error_code == Code.FENCED_LEADER_EPOCH:
                leader_epoch = part.current_leader.leader_epoch
                continue
            assert not part.error_code, name_of(part.error_code)
            raw = bytes(part.records or b"")
            if not raw:
                return epochs
            for start, header in batches(raw):
                at, last_epoch = header.next_offset, header.leader_epoch
                if not header.is_control:
                    for record in read_records(raw[start : start + header.size_bytes]):
                        epochs |= _registered(record.value or b"")


def _metadata_records(world: World, at: int, last_epoch: int, leader_epoch: int) -> Any:
    asked = FetchPartition(
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=at,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=ALL_BYTES,
    )
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=OBSERVER),
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[asked])],
    )
    return world.call(request, 17).responses[0].partitions[0]


def _registered(value: bytes) -> dict[int, int]:
    frame_version, kind, version = value[:3]
    if (frame_version, kind) != (1, registering.RECORD_TYPE):
        return {}
    message, _ = registering.decode(value, 3, version)
    return {message.broker_id: message.broker_epoch}
