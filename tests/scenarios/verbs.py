"""Scenario commands that change state. config_verbs.py has the commands for configs, and views.py the commands that only read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.errors import Code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.records import build_batch
from tests.scenarios.world import NOT_READY, TIMEOUT_MS, TRANSACTION_TIMEOUT_MS, Actor, Ask, Words, World, name_of
from tests.support import oracle

Verb = Callable[[World, Words], "Ask | str"]
VERBS: dict[str, Verb] = {}
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def verb(function: Verb) -> Verb:
    VERBS[function.__name__.removeprefix("do_")] = function
    return function


def identity(world: World, words: Words, actor: Actor) -> tuple[int, int]:
    """Return producer id and epoch, as modified by the command: ``epoch=e-1``, ``epoch=3``, ``pid=B``, ``pid=77``."""
    pid, epoch = actor.pid, actor.epoch
    given = words.options.get("pid")
    if given is not None:
        pid = world.actors[given].pid if given in world.actors else int(given)
    given = words.options.get("epoch")
    if given is not None:
        epoch = epoch + int(given[1:] or 0) if given.startswith("e") else int(given)
    return pid, epoch


def transactional_id(world: World, words: Words, actor: Actor) -> str | None:
    given = words.options.get("id")
    if given is None:
        return actor.transactional_id
    return None if given == "null" else "" if given == "empty" else world.real(given)


@verb
def topic(world: World, words: Words) -> str:
    """Create a topic and wait until its leaders accept requests. Command: ``topic t [partitions=2] [any.config=value]``."""
    name = world.real(words.plain[0])
    configs = [CreatableTopicConfig(name=k, value=v) for k, v in words.options.items() if "." in k]
    count = words.number("partitions", 1)
    topic_result = world.call(
        CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=count, replication_factor=1, configs=configs)],
            timeout_ms=TIMEOUT_MS,
        )
    ).topics[0]
    if topic_result.error_code:
        return name_of(topic_result.error_code)
    world.topic_ids.setdefault(words.plain[0], topic_result.topic_id)
    oracle.leaders_lead(world, name, count)
    return ""


@verb
def delete(world: World, words: Words) -> Ask:
    name = world.real(words.plain[0])

    def show(answer: DeleteTopicsResponse) -> str:
        code = answer.responses[0].error_code
        if code == Code.NONE and world.target == "kafka":
            oracle.topic_gone(world, name)
            world.wait_up_to_date()
        return name_of(code)

    return Ask(DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=TIMEOUT_MS), None, show)


@verb
def delete_records(world: World, words: Words) -> Ask:
    """Send DeleteRecords for one partition. Command: ``delete_records t before=4 [wait=10000]``."""
    name, index = world.partition(words.plain[0])
    before = DeleteRecordsPartition(partition_index=index, offset=words.number("before", -1))
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=[before])], timeout_ms=words.number("wait", TIMEOUT_MS)
    )
    return Ask(request, None, lambda a: name_of(a.topics[0].partitions[0].error_code))


@verb
def create_partitions(world: World, words: Words) -> Ask:
    """Send CreatePartitions; ``dry`` only validates the request. Command: ``create_partitions t count=3 [dry]``."""
    name, count, dry = world.real(words.plain[0]), words.number("count", 1), words.has("dry")
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)

    def show(answer: CreatePartitionsResponse) -> str:
        code = answer.results[0].error_code
        if code == Code.NONE and not dry and world.target == "kafka":
            oracle.leaders_lead(world, name, count)
        return name_of(code)

    return Ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=dry), 3, show)


@verb
def init(world: World, words: Words) -> Ask:
    """Send InitProducerId, and name the producer A.

    Command: ``A = init [x] [v=5] [timeout=600000] [as=A] [pid=] [epoch=] [2pc] [keep] [nosettle]``.
    """
    name = words.plain[0] if words.plain and words.plain[0] not in ("2pc", "keep", "once") else None
    real = None if name is None else world.real(name)
    if words.options.get("id") == "empty":
        real = ""
    pid, epoch = -1, -1
    if "as" in words.options:
        pid, epoch = identity(world, words, world.actors[words.options["as"]])
    elif "pid" in words.options or "epoch" in words.options:
        pid, epoch = words.number("pid", -1), words.number("epoch", -1)
    if real:
        world.call(FindCoordinatorRequest(key=real, key_type=1), 3)
    request = InitProducerIdRequest(
        transactional_id=real,
        transaction_timeout_ms=words.number("timeout", TRANSACTION_TIMEOUT_MS),
        producer_id=pid,
        producer_epoch=epoch,
        enable2_pc=words.has("2pc"),
        keep_prepared_txn=words.has("keep"),
    )

    def show(answer: InitProducerIdResponse) -> str:
        if answer.error_code:
            if answer.error_code == Code.CONCURRENT_TRANSACTIONS and real and not world.held and not words.has("nosettle"):
                settle(world, real)
            return name_of(answer.error_code)
        if words.name in world.actors:
            world.actors[words.name].adopt(answer.producer_id, answer.producer_epoch)
        elif words.name:
            world.actors[words.name] = Actor(words.name, real, answer.producer_id, answer.producer_epoch)
        ongoing = ""
        if (words.version() or 5) >= 6:
            ongoing = f" ongoing {world.pid(answer.ongoing_txn_producer_id)} e{answer.ongoing_txn_producer_epoch}"
        return f"NONE {world.pid(answer.producer_id)} e{answer.producer_epoch}{ongoing}"

    return Ask(request, words.version(5), show)


@verb
def copy(world: World, words: Words) -> str:
    """Create a second instance of the producer A, with A's current identity and sequences. Command: ``Z = copy A``."""
    a = world.actors[words.plain[0]]
    world.actors[words.name] = Actor(words.name, a.transactional_id, a.pid, a.epoch, dict(a.sequences), a.written)
    return ""


@verb
def produce(world: World, words: Words) -> Ask:
    """Produce a batch.

    Command: ``produce A t [n=1] [keys=a,b,-c] [seq=] [epoch=] [pid=] [v=12] [plain] [id=null] [acks=-1] [codec=] [size=]
    [age=ms]``. A key after ``-`` has a null value, which deletes the key in a compacted topic.
    """
    actor = world.actors[words.plain[0]]
    where = world.partition(words.plain[1])
    pid, epoch = identity(world, words, actor)
    transactional = actor.transactional_id is not None and not words.has("plain")
    keys = (
        words.options["keys"].split(",") if "keys" in words.options else ["k" if words.has("keyed") else ""] * words.number("n", 1)
    )
    count, sequence = len(keys), words.number("seq", actor.sequences.get(where, 0))
    values = list[tuple[bytes | None, bytes | None]]()
    for key in keys:
        actor.written += 1
        value = f"{actor.name.lower()}{actor.written}".encode()
        value += b"." * (words.number("size", 0) - len(value))
        values.append((key.removeprefix("-").encode() or None, None if key.startswith("-") else value))
    batch = build_batch(
        values,
        world.broker.now_ms() - words.number("age", 0),
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        compression=CODECS[words.options.get("codec", "none")],
    )
    acks = words.number("acks", -1)
    whose = transactional_id(world, words, actor) if transactional or "id" in words.options else None

    def show(answer: Any) -> str:
        partition_response: PartitionProduceResponse = answer.responses[0].partition_responses[0]
        if partition_response.error_code:
            return name_of(partition_response.error_code)
        if "seq" not in words.options or "move" in words.plain:
            actor.sequences[where] = sequence + count
        return f"NONE @{partition_response.base_offset}" + (" stamped" if partition_response.log_append_time_ms >= 0 else "")

    data = [TopicProduceData(where[0], partition_data=[PartitionProduceData(index=where[1], records=bytes(batch))])]
    return Ask(ProduceRequest(transactional_id=whose, acks=acks, timeout_ms=TIMEOUT_MS, topic_data=data), words.version(12), show)


@verb
def produce_all(world: World, words: Words) -> Ask:
    """Send one Produce request with a record for each partition.

    Command: ``produce_all A t,u/1 [corrupt=t] [v=12]``. The results are shown in the order of the command. The batch of the
    partition ``corrupt`` has a wrong CRC.
    """
    actor = world.actors[words.plain[0]]
    parts = [world.partition(p) for p in words.plain[1].split(",")]
    corrupt = world.partition(words.options["corrupt"]) if "corrupt" in words.options else None
    topics: dict[str, list[PartitionProduceData]] = {}
    for where in parts:
        actor.written += 1
        batch = build_batch(
            [(None, f"{actor.name.lower()}{actor.written}".encode())],
            world.broker.now_ms() - words.number("age", 0),
            producer_id=actor.pid,
            producer_epoch=actor.epoch,
            base_sequence=actor.sequences.get(where, 0),
            transactional=True,
        )
        if where == corrupt:
            batch[-1] ^= 1
        topics.setdefault(where[0], []).append(PartitionProduceData(index=where[1], records=bytes(batch)))

    def show(answer: Any) -> str:
        shown = {}
        for topic in answer.responses:
            for p in topic.partition_responses:
                where = (topic.name, p.index)
                shown[where] = name_of(p.error_code) if p.error_code else f"NONE @{p.base_offset}"
                if not p.error_code:
                    actor.sequences[where] = actor.sequences.get(where, 0) + 1
        answers = [shown[where] for where in parts]
        return answers[0] if len(set(answers)) == 1 else " | ".join(answers)

    data = [TopicProduceData(name, partition_data=partitions) for name, partitions in topics.items()]
    request = ProduceRequest(transactional_id=actor.transactional_id, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=data)
    return Ask(request, words.version(12), show)


@verb
def add(world: World, words: Words) -> Ask:
    """Send AddPartitionsToTxn.

    Command: ``add A t,u/1 [v=3] [epoch=] [pid=] [id=]``. Versions 4 and 5, which brokers use, are supported as well.
    """
    actor = world.actors[words.plain[0]]
    pid, epoch = identity(world, words, actor)
    version = words.version(3) or 0
    parts = [world.partition(p) for p in words.plain[1].split(",")]
    by_topic: dict[str, list[int]] = {}
    for name, index in parts:
        by_topic.setdefault(name, []).append(index)
    topics = [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic.items()]
    real = transactional_id(world, words, actor) or ""
    if version < 4:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=real,
            v3_and_below_producer_id=pid,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
    else:
        one = AddPartitionsToTxnTransaction(
            transactional_id=real, producer_id=pid, producer_epoch=epoch, verify_only=words.verb == "verify", topics=topics
        )
        request = AddPartitionsToTxnRequest(transactions=[one])

    def show(answer: Any) -> str:
        if version >= 4 and answer.error_code:
            return name_of(answer.error_code)
        topic_results = answer.results_by_topic_v3_and_below if version < 4 else answer.results_by_transaction[0].topic_results
        codes = {(t.name, p.partition_index): p.partition_error_code for t in topic_results for p in t.results_by_partition}
        names = [name_of(codes[p]) for p in parts]
        return names[0] if len(set(names)) == 1 else " | ".join(names)

    return Ask(request, version, show)


@verb
def verify(world: World, words: Words) -> Ask:
    """Send AddPartitionsToTxn that only verifies. Command: ``verify A t [v=5]``."""
    words.options.setdefault("v", "5")
    return add(world, words)  # type: ignore[return-value]


@verb
def add_offsets(world: World, words: Words) -> Ask:
    """Send AddOffsetsToTxn. Command: ``add_offsets A g [v=3]``."""
    actor = world.actors[words.plain[0]]
    pid, epoch = identity(world, words, actor)
    group = "" if words.plain[1] == "empty" else world.real(words.plain[1])
    # The first FindCoordinator request for a group creates the offsets topic.
    oracle.coordinator_known(world, group or "any", oracle.GROUP)
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id(world, words, actor) or "", producer_id=pid, producer_epoch=epoch, group_id=group
    )
    return Ask(request, words.version(3), lambda a: name_of(a.error_code))


def _end(world: World, words: Words, commit: bool) -> Ask:
    actor = world.actors[words.plain[0]]
    pid, epoch = identity(world, words, actor)
    version = words.version(5) or 0
    real = transactional_id(world, words, actor) or ""
    bent = bool({"epoch", "pid", "id"} & set(words.options)) or words.has("stay")

    def show(answer: EndTxnResponse) -> str:
        if answer.error_code:
            return name_of(answer.error_code)
        if not world.held and not words.has("nosettle"):
            settle(world, real)
        if version < 5:
            return "NONE"
        if not bent:
            actor.adopt(answer.producer_id, answer.producer_epoch)
        return f"NONE {world.pid(answer.producer_id)} e{answer.producer_epoch}"

    return Ask(EndTxnRequest(transactional_id=real, producer_id=pid, producer_epoch=epoch, committed=commit), version, show)


@verb
def commit(world: World, words: Words) -> Ask:
    """Send EndTxn that commits.

    Command: ``commit A [v=5] [epoch=] [pid=] [id=] [stay] [nosettle]``. A adopts the identity in the response, unless ``stay`` or
    an option for another identity is used.
    """
    return _end(world, words, True)


@verb
def abort(world: World, words: Words) -> Ask:
    return _end(world, words, False)


def settle(world: World, real: str) -> str:
    """Wait until the id's transaction is complete. Returns the state of the id."""

    def state() -> str:
        described = world.call(DescribeTransactionsRequest([real])).transaction_states[0]
        return described.transaction_state or name_of(described.error_code)

    settled: str = world.until(f"{real!r} has no pending decision", state, lambda s: not s.startswith(("Prepare", *NOT_READY)))
    return settled


@verb
def do_settle(world: World, words: Words) -> str:
    return settle(world, world.real(words.plain[0]))


@verb
def marker(world: World, words: Words) -> Ask:
    """Send WriteTxnMarkers, as a coordinator or an admin client does.

    Command: ``marker A t commit|abort [epoch=] [coordinator=0] [tv=0] [v=2]``.
    """
    actor = world.actors[words.plain[0]]
    pid, epoch = identity(world, words, actor)
    parts = [world.partition(p) for p in words.plain[1].split(",")]
    topics = [WritableTxnMarkerTopic(name=name, partition_indexes=[index]) for name, index in parts]
    one = WritableTxnMarker(
        producer_id=pid,
        producer_epoch=epoch,
        transaction_result=words.plain[2] == "commit",
        topics=topics,
        coordinator_epoch=words.number("coordinator", 0),
        transaction_version=words.number("tv", 0),
    )

    def show(answer: Any) -> str:
        codes = {(t.name, p.partition_index): p.error_code for t in answer.markers[0].topics for p in t.partitions}
        return " | ".join(name_of(codes[p]) for p in parts)

    return Ask(WriteTxnMarkersRequest([one]), words.version(2), show)


@verb
def restart(world: World, words: Words) -> str:
    world.held.clear()
    world.broker.restart()
    world.forget_connection()
    return ""


@verb
def kill(world: World, words: Words) -> str:
    """Kill the broker with SIGKILL, and start it again. Command: ``kill``."""
    world.held.clear()
    world.broker.restart(kill=True)
    world.forget_connection()
    return ""


@verb
def wait(world: World, words: Words) -> str:
    """Sleep for a number of milliseconds. Command: ``wait 300``."""
    world.broker.sleep(int(words.plain[0]))
    return ""
