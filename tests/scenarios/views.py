"""Scenario commands that only read: logs, offsets, transactions, producers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.coordinator.group.records import GROUP_KEY_VERSION, kind_of, read_key
from ottla.coordinator.result import LogRecord
from ottla.coordinator.transaction.metadata import TxnMetadata, from_record
from ottla.protocol.codec import decode_record
from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.markers import read_marker
from ottla.protocol.messages import group_metadata_value
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.group_metadata_value import GroupMetadataValue
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.records import COMPRESSIONS, DELETE_HORIZON_BIT, HEADER_BYTES, BatchHeader, batches, read_records
from tests.scenarios.verbs import verb
from tests.scenarios.world import Ask, Words, World, name_of
from tests.support import oracle

T = TypeVar("T")

TRANSACTION_TOPIC = "__transaction_state"
PARTITIONS = 50
ALL_BYTES = 8 << 20


def fetch_once(
    world: World, where: tuple[str, int], at: int = 0, *, committed: bool = True, max_bytes: int = ALL_BYTES, wait_ms: int = 0
) -> PartitionData:
    part = FetchPartition(partition=where[1], current_leader_epoch=-1, fetch_offset=at, partition_max_bytes=max_bytes)
    topics = [FetchTopic(where[0], partitions=[part])]
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, isolation_level=int(committed), topics=topics)
    return _of_leader(world, lambda: world.call(request, 11).responses[0].partitions[0])


def _of_leader(world: World, ask: Callable[[], T]) -> T:
    """Send a request until a partition's leader has answered it.

    After the time limit, the error is compared with the transcript.
    """
    no_leader = (Code.NOT_LEADER_OR_FOLLOWER, Code.UNKNOWN_TOPIC_OR_PARTITION)
    return oracle.final_value(ask, lambda p: p.error_code not in no_leader, clock=world.clock)


def stored(
    world: World, where: tuple[str, int], *, committed: bool = False, aborted: set[tuple[int, int]] | None = None
) -> list[tuple[BatchHeader, bytes]]:
    """Return all batches that fetches with this isolation level return.

    The aborted transactions in the responses are added to ``aborted``.
    """
    stored_batches: list[tuple[BatchHeader, bytes]] = []
    at = 0
    while True:
        part = fetch_once(world, where, max(at, 0), committed=committed)
        if part.error_code == Code.OFFSET_OUT_OF_RANGE and at < part.log_start_offset:
            at = part.log_start_offset
            continue
        if aborted is not None:
            aborted |= {(a.first_offset, a.producer_id) for a in part.aborted_transactions or ()}
        data = bytes(part.records or b"")
        batch_list = [(h, data[p : p + h.size_bytes]) for p, h in batches(data) if h.next_offset > at]
        if not batch_list:
            return stored_batches
        stored_batches += batch_list
        at = batch_list[-1][0].next_offset


def visible(world: World, where: tuple[str, int], *, committed: bool) -> list[str]:
    """Return the values of the records that a consumer delivers. Aborted records are removed as by the Java client."""
    listed: set[tuple[int, int]] = set()
    stored_batches = stored(world, where, committed=committed, aborted=listed)
    aborted = sorted(listed)
    values: list[str] = []
    hidden: set[int] = set()
    for header, raw in stored_batches:
        while aborted and aborted[0][0] <= header.last_offset:
            hidden.add(aborted.pop(0)[1])
        if header.is_control:
            hidden.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in hidden):
            values += [(r.value or b"").decode().rstrip(".") for r in read_records(raw)]
    return values


@verb
def read(world: World, words: Words) -> str:
    """Show the values of the records that a consumer delivers. Command: ``read t [uncommitted]``."""
    where = world.partition(words.plain[0])
    return " ".join(visible(world, where, committed=not words.has("uncommitted"))) or "nothing"


@verb
def log(world: World, words: Words) -> str:
    """Show every batch in the log and its content, and ``until`` if the batch has a delete horizon. Command: ``log t [keys]``."""
    parts = []
    for header, raw in stored(world, world.partition(words.plain[0])):
        where = f"{header.base_offset}" + (f"-{header.last_offset}" if header.last_offset_delta else "")
        producer = f" {world.pid(header.producer_id)} e{header.producer_epoch}" if header.producer_id >= 0 else ""
        if header.is_control:
            marker = read_marker(raw, header)
            kind = "control" if marker is None else "commit" if marker.commit else "abort"
        else:
            kind = "data" + (f" s{header.base_sequence}" if header.producer_id >= 0 else "")
            kind += " txn" if header.is_transactional else ""
        if words.has("keys") and not header.is_control:
            kind += "".join(f" {r.offset}:{(r.key or b'').decode()}={(r.value or b'').decode()}" for r in read_records(raw))
        kind += " until" if header.attributes & DELETE_HORIZON_BIT else ""
        parts.append(f"{where}{producer} {kind}")
    return " | ".join(parts) or "empty"


@verb
def codecs(world: World, words: Words) -> str:
    """Show the compression of every data batch in the log. Command: ``codecs t``."""
    batch_list = stored(world, world.partition(words.plain[0]))
    return " ".join(COMPRESSIONS[header.compression] for header, _ in batch_list if not header.is_control) or "empty"


@verb
def marker_bytes(world: World, words: Words) -> str:
    """Show attributes, base sequence, record count and raw record of the newest batch.

    Command: ``marker_bytes t``. The coordinator epoch is masked.
    """
    header, raw = stored(world, world.partition(words.plain[0]))[-1]
    record = raw[HEADER_BYTES:]
    # The coordinator epoch changes with each start of the broker.
    masked = record[:-5].hex() + "xxxxxxxx" + record[-1:].hex()
    return f"{header.attributes:#06x} s{header.base_sequence} n={header.record_count} {masked}"


def _open(start_offset: int) -> str:
    return "none" if start_offset < 0 else "open"


def _offset(world: World, where: tuple[str, int], timestamp: int, committed: bool) -> Any:
    asked = [
        ListOffsetsTopic(
            name=where[0], partitions=[ListOffsetsPartition(partition_index=where[1], current_leader_epoch=-1, timestamp=timestamp)]
        )
    ]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=asked)
    return _of_leader(world, lambda: world.call(request, 7).topics[0].partitions[0])


@verb
def ends(world: World, words: Words) -> str:
    """Show log start offset, last stable offset and log end offset. Command: ``ends t``."""
    where = world.partition(words.plain[0])
    start, stable, end = (_offset(world, where, t, c) for t, c in ((-2, False), (-1, True), (-1, False)))
    for partition_response in (start, stable, end):
        if partition_response.error_code:
            return name_of(partition_response.error_code)
    return f"start={start.offset} lso={stable.offset} end={end.offset}"


@verb
def list_offsets(world: World, words: Words) -> str:
    """Send ListOffsets for a timestamp. Command: ``list_offsets t at=-3 [committed] [ago=ms]``."""
    at = words.number("at", -1)
    if "ago" in words.options:
        at = world.broker.now_ms() - words.number("ago", 0)
    partition_response = _offset(world, world.partition(words.plain[0]), at, words.has("committed"))
    stamp = "stamp" if partition_response.timestamp >= 0 else "no stamp"
    return name_of(partition_response.error_code) if partition_response.error_code else f"NONE @{partition_response.offset} {stamp}"


@verb
def fetch_raw(world: World, words: Words) -> Ask:
    """Send one Fetch request that may wait, and show the response as ``fetch`` does. Command: ``fetch_raw t ...``."""
    topic, index = world.partition(words.plain[0])
    part = FetchPartition(
        partition=index, current_leader_epoch=-1, fetch_offset=words.number("from", 0), partition_max_bytes=ALL_BYTES
    )
    request = FetchRequest(
        max_wait_ms=words.number("wait", 0),
        min_bytes=1,
        isolation_level=int(words.has("committed")),
        topics=[FetchTopic(topic, partitions=[part])],
    )
    return Ask(request, 11, lambda a: _fetched(world, a.responses[0].partitions[0]))


@verb
def timed(world: World, words: Words) -> str:
    """Show the result of ``fetch``, and whether the response took most of the maximum wait. Command: ``timed fetch t wait=700``."""
    words.plain.pop(0)
    began = world.broker.now_ms()
    answer = fetch(world, words)
    waited = world.broker.now_ms() - began >= words.number("wait", 0) * 0.8
    return f"{answer} {'waited' if waited else 'at once'}"


@verb
def walk(world: World, words: Words) -> str:
    """Show the offsets of the batches that a read-committed consumer reads one at a time. Command: ``walk t``."""
    where = world.partition(words.plain[0])
    at, seen = 0, []
    while True:
        data = bytes(fetch_once(world, where, at, max_bytes=1).records or b"")
        first = next((h for _, h in batches(data)), None)
        if first is None:
            return ",".join(seen)
        seen.append(f"{first.base_offset}-{first.last_offset}")
        at = first.next_offset


@verb
def fetch(world: World, words: Words) -> str:
    """Fetch records.

    Command: ``fetch t [from=0] [committed] [max=bytes] [wait=ms]``. Shows the error, the offsets of the batches, LSO, high
    watermark and aborted transactions.
    """
    part = fetch_once(
        world,
        world.partition(words.plain[0]),
        words.number("from", 0),
        committed=words.has("committed"),
        max_bytes=words.number("max", ALL_BYTES),
        wait_ms=words.number("wait", 0),
    )
    return _fetched(world, part)


def _fetched(world: World, part: PartitionData) -> str:
    if part.error_code:
        return name_of(part.error_code)
    ranges = [f"{h.base_offset}-{h.last_offset}" for _, h in batches(bytes(part.records or b""))]
    text = f"NONE {','.join(ranges) or 'nothing'} lso={part.last_stable_offset} hw={part.high_watermark}"
    if part.aborted_transactions:
        pairs = sorted((a.first_offset, a.producer_id) for a in part.aborted_transactions)
        text += " aborted " + " ".join(f"{world.pid(p)}@{o}" for o, p in pairs)
    return text


@verb
def describe(world: World, words: Words) -> Ask:
    """Show state, identity and partitions of a transactional id by DescribeTransactions. Command: ``describe x [exact]``."""

    def show(answer: Any) -> str:
        s = answer.transaction_states[0]
        if s.error_code:
            return name_of(s.error_code)
        # The offsets partition of a group depends on its name, which differs between runs.
        hidden = "__consumer_offsets" if "exact" not in words.plain else None
        parts = sorted(f"{world.shown(t.topic)}" + ("" if t.topic == hidden else f"/{p}") for t in s.topics for p in t.partitions)
        started = " started" if s.transaction_start_time_ms >= 0 else ""
        return f"{s.transaction_state} {world.pid(s.producer_id)} e{s.producer_epoch}{started}" + (
            f" {','.join(parts)}" if parts else ""
        )

    name = "" if words.plain[0] == "empty" else world.real(words.plain[0])
    return Ask(DescribeTransactionsRequest([name]), None, show)


@verb
def transactions(world: World, words: Words) -> Ask:
    """Show the case's own transactional ids by ListTransactions.

    Command: ``transactions [state=Ongoing,Empty] [pid=A] [longer=ms] [pattern=.*] [v=2]``.
    """
    pids = [world.actors[p].pid if p in world.actors else int(p) for p in words.options.get("pid", "").split(",") if p]
    states = [s for s in words.options.get("state", "").split(",") if s]
    pattern = words.options.get("pattern")
    if pattern is not None:
        pattern = pattern.replace("@", world.real("x")[:-1])
    request = ListTransactionsRequest(
        state_filters=states, producer_id_filters=pids, duration_filter=words.number("longer", -1), transactional_id_pattern=pattern
    )

    def show(answer: Any) -> str:
        if answer.error_code:
            return name_of(answer.error_code)
        mine = [t for t in answer.transaction_states if t.transactional_id.startswith(world.real("x")[:-1])]
        listed = sorted(f"{world.shown(t.transactional_id)} {t.transaction_state}" for t in mine)
        unknown = f" unknown {','.join(answer.unknown_state_filters)}" if answer.unknown_state_filters else ""
        return "NONE " + (", ".join(listed) or "nothing") + unknown

    return Ask(request, words.version(), show)


def txn_records(world: World, name: str) -> list[TxnMetadata | None]:
    where = (TRANSACTION_TOPIC, partition_for(name, PARTITIONS))
    records = []
    for _, raw in stored(world, where):
        for record in read_records(raw):
            transactional_id, metadata = from_record(LogRecord(record.key, record.value))
            if transactional_id == name:
                records.append(metadata)
    return records


@verb
def txn_log(world: World, words: Words) -> str:
    """Show a transactional id's records in __transaction_state, as state:epoch. Command: ``txn_log x``."""
    records = txn_records(world, world.real(words.plain[0]))
    return " ".join("tombstone" if m is None else f"{m.state.label}:{m.producer_epoch}" for m in records) or "nothing"


@verb
def txn_log_tags(world: World, words: Words) -> str:
    """Show state, identity, adjacent producer ids and client version in a transactional id's newest record.

    Command: ``txn_log_tags x``.
    """
    m = txn_records(world, world.real(words.plain[0]))[-1]
    if m is None:
        return "tombstone"
    return (
        f"{m.state.label} {world.pid(m.producer_id)} e{m.producer_epoch} previous={world.pid(m.previous_producer_id)}"
        f" next={world.pid(m.next_producer_id)} e{m.next_producer_epoch} client={m.client_transaction_version}"
        f" timeout={m.timeout_ms}"
    )


def _whole_group(raw: bytes, value: GroupMetadataValue) -> str:
    """Show all fields of a group's record. A member id is shown as ``member``, the time of the last state change as ``now``."""
    leader = "null" if value.leader is None else "member"
    since = "now" if value.current_state_timestamp > 0 else value.current_state_timestamp
    members = [(m.rebalance_timeout, m.session_timeout, bool(m.subscription), bool(m.assignment)) for m in value.members]
    return (
        f"v{int.from_bytes(raw[:2], 'big')} type={value.protocol_type!r} generation={value.generation}"
        f" protocol={value.protocol or 'null'} leader={leader} since={since} members={members};"
    )


@verb
def group_log(world: World, words: Words) -> str:
    """Show a group's own records of the classic protocol in __consumer_offsets, as type:generation:members.

    ``whole`` shows all fields of each value. Commands: ``group_log g``, ``group_log g whole``.
    """
    name = world.real(words.plain[0])
    shown = []
    is_whole = "whole" in words.plain
    for _, raw in stored(world, (OFFSETS_TOPIC, partition_for(name, PARTITIONS))):
        for record in read_records(raw):
            if kind_of(record.key) != GROUP_KEY_VERSION or read_key(record.key) != name:
                continue
            if record.value is None:
                shown.append("tombstone")
            else:
                v = decode_record(group_metadata_value, record.value)
                if is_whole:
                    shown.append(_whole_group(record.value, v))
                    continue
                shown.append(f"{v.protocol_type or 'none'}:{v.generation}:{len(v.members)}")
    return " ".join(shown) or "nothing"


@verb
def producers(world: World, words: Words) -> Ask:
    """Show a partition's producer state by DescribeProducers. Command: ``producers t [of=A]``."""
    topic, index = world.partition(words.plain[0])
    only = world.actors[words.options["of"]].pid if "of" in words.options else None

    def show(answer: Any) -> str:
        partition_response = answer.topics[0].partitions[0]
        if partition_response.error_code:
            return name_of(partition_response.error_code)
        opened = str if only is None else _open
        listed = [
            f"{world.pid(p.producer_id)} e{p.producer_epoch} last={p.last_sequence}"
            f" coordinator={'none' if p.coordinator_epoch < 0 else 'known'} txn={opened(p.current_txn_start_offset)}"
            for p in sorted(partition_response.active_producers, key=lambda p: p.producer_id)
            if only in (None, p.producer_id)
        ]
        # Producers are sorted by their names in the transcript, because several coordinators assign ids from different blocks.
        return " | ".join(sorted(listed)) or "nobody"

    return Ask(DescribeProducersRequest([TopicRequest(name=topic, partition_indexes=[index])]), None, show)


@verb
def coordinator(world: World, words: Words) -> str:
    """Send FindCoordinator; show error and broker id, and for ``=name`` the partition that the id hashes to.

    Command: ``coordinator x [group] [v=6]``.
    """
    name = words.plain[0]
    version = words.version(6) or 0
    real = world.real(name)
    request = FindCoordinatorRequest(key=real, key_type=int(not words.has("group")), coordinator_keys=[real])

    def coordinator_answer() -> str:
        answer = world.call(request, version)
        named_coordinator = answer.coordinators[0] if version >= 4 else answer
        return name_of(named_coordinator.error_code) + f" node {named_coordinator.node_id}"

    return world.patiently(coordinator_answer) + (f" partition {partition_for(real, PARTITIONS)}" if name.startswith("=") else "")
