"""Simulates a plan, and compares the history with the final state that clients and the files show."""

from __future__ import annotations

import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from ottla.broker.broker import BrokerServer
from ottla.broker.partitions.partitions import Partition
from ottla.coordinator.transaction.states import AT_REST
from ottla.invariants import CHECKED
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.markers import read_marker
from ottla.protocol.records import batches, crc_is_valid, read_records
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.checker import Observation, Shown, Stored, check, outcomes
from ottla.simulation.clients.actors import GROUP_ID, INPUT, TRANSACTION_TIMEOUT_MS, TRIMMED
from ottla.simulation.clients.consuming import Reader, committed_offsets
from ottla.simulation.node import DATA_DIR, Node
from ottla.simulation.plan import Plan
from ottla.simulation.tasks import Steps, Task
from ottla.simulation.world import READERS, World
from ottla.storage.names import parse_directory_name

WRITING_MS = 240_000
"""Simulated time, in ms, within which all writing clients must finish."""
SETTLING_MS = 40_000
READING_MS = 60_000
EVENTS = {
    "transaction_timed_out": "an abort by timeout",
    "transaction_resumed": "a decided transaction is resumed by a start",
    "log_tail_truncated": "a torn log end is truncated",
    "disk_writes_failed": "a disk refuses writes",
    "disk_writes_resumed": "a disk takes writes again",
    "completion_delayed": "an outcome that the log refuses",
    "transaction_timeout_delayed": "an abort by timeout that the log refused",
    "producer_ids_skipped": "producer ids are skipped after a crash",
    "sync_failed": "a sync has failed",
    "metadata_topic_removed": "a topic whose creation was lost",
    "connection_closed": "a broker closes a connection",
    "log_truncated": "a follower truncates records that its leader lacks",
    "log_fully_truncated": "a follower begins its log anew",
    "broker_fenced": "a broker is fenced",
    "leader_elected": "a leader is elected",
    "leader_lost": "a partition has lost its leader",
    "broker_registered": "a broker registers",
    "replicas_lagged": "a follower lags",
    "in_sync_changed": "an ISR is changed",
    "in_sync_change_refused": "a change of an in-sync set is refused",
    "in_sync_change_delayed": "an AlterPartition request is repeated",
    "controlled_shutdown_timed_out": "a controlled shutdown is given up",
    "coordinator_loaded": "an elected coordinator has loaded its log",
    "coordinator_unloaded": "a coordinator resigns",
    "follower_delayed": "a follower is ahead of its leader's epoch",
    "markers_not_sent": "markers cannot be sent",
    "marker_refused": "the marker of an old coordinator is refused",
    "controller_decision_delayed": "a controller's decision that its log refused",
    "request_not_forwarded": "a request cannot be forwarded to the controller",
    "peer_disconnected": "a broker loses its connection to another",
}
"""For log events of a broker: the rare state that the event shows."""
TORN = ("transaction_torn", "transactions_torn")
REFUSED_BY_DISK = frozenset(
    (
        *(
            "completion_delayed",
            "disk_writes_failed",
            "follower_stopped",
            "file_not_written",
            "partition_went_offline",
            "sync_failed",
        ),
        "transaction_timeout_delayed",
    )
)
"""Errors that a broker logs if its disk fails a write. They are unexpected only if the simulation made no disk fail."""


@dataclass(slots=True)
class Judgement:
    """The result of simulating a plan. ``findings`` are the errors found. ``lines`` are the history as text."""

    plan: Plan
    findings: list[str]
    reached: Counter[str]
    outcomes: Counter[str]
    lines: list[str]
    steps: int
    simulated_ms: int


@contextmanager
def listening(world: World, complaints: list[str], *, whole_states: bool) -> Iterator[None]:
    """During the block count the brokers' log events, collect unexpected errors, and enable checks of whole states if
    ``whole_states``.
    """

    def note(logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        name = event["event"]
        if name in EVENTS:
            world.reached[EVENTS[name]] += 1
        is_error = method in ("error", "exception", "critical")
        is_expected = world.disk_has_refused and name in REFUSED_BY_DISK and not event.get("exception")
        # The audit after a crash compares wall clock times, so it may report correct transactions if the clock was set back.
        is_torn = name in TORN and not world.clock_was_set_back
        if (is_error and not is_expected) or is_torn:
            complaints.append(" ".join(f"{key}={value}" for key, value in event.items()))
        raise structlog.DropEvent

    before, were_checked = structlog.get_config(), CHECKED.whole_states
    structlog.configure(
        processors=[structlog.processors.format_exc_info, note], wrapper_class=None, cache_logger_on_first_use=False
    )
    CHECKED.whole_states = whole_states
    try:
        yield
    finally:
        CHECKED.whole_states = were_checked
        structlog.configure(**before)


def judge(plan: Plan, *, whole_states: bool = True) -> Judgement:
    """Simulate a plan to its end. An exception is not raised, but added to the findings."""
    world = World(plan)
    complaints: list[str] = []
    findings: list[str] = []
    counted: Counter[str] = Counter()
    with listening(world, complaints, whole_states=whole_states):
        try:
            counted = _play(world, findings, complaints)
        except Exception:
            findings.append(f"error: {traceback.format_exc()}")
    world.reached.update(state for node in world.machines for state in node.reached.elements())
    return Judgement(
        plan=plan,
        findings=[*world.notes.findings, *findings],
        reached=world.reached,
        outcomes=counted,
        lines=world.notes.lines,
        steps=world.steps,
        simulated_ms=world.scheduler.now_ms,
    )


def _play(world: World, findings: list[str], complaints: list[str]) -> Counter[str]:
    world.begin()
    if not world.run_until(world.are_written, WRITING_MS):
        busy = [actor.name for actor, task in world.actors.values() if not task.is_done and actor.role not in READERS]
        findings.append(f"stuck: {busy} have not finished after {WRITING_MS} ms")
    world.heal()
    if not world.run_until(lambda: all(node.is_up for node in world.machines), SETTLING_MS):
        findings.append("stuck: a broker does not start")
        return Counter()
    world.run_until(lambda: _are_settled(world), SETTLING_MS + 2 * TRANSACTION_TIMEOUT_MS)
    findings += world.replicas.differences(world.nodes)
    seen = _observe(world, findings)
    leaders = {(p.log.topic, p.log.partition): node for node in world.nodes for p in led(node)}
    if not world.stop():
        findings.append("stuck: a server does not stop")
    complaints += [f"{node.host}: {node.bugs} unexpected errors" for node in world.machines if node.bugs]
    for node in world.nodes:
        seen.stored |= {where: kept for where, kept in stored(node.disk.files).items() if leaders.get(where) is node}
    seen.errors = complaints
    history = world.notes.history
    findings += check(history, seen)
    seen_outcomes = outcomes(history, seen)
    for outcome, count in seen_outcomes.items():
        if outcome.startswith("unknown"):
            world.reached[f"a commit whose outcome was {outcome.replace('unknown, ', 'unknown and is ')}"] += count
    return seen_outcomes


def _are_settled(world: World) -> bool:
    for node in world.nodes:
        server = node.server
        if server is None or any(m.state not in AT_REST for shard in server.transactions.shards() for m in shard.ids.values()):
            return False
    if next(world.replicas.differences(world.nodes), None) is not None:
        return False
    return all(task.is_done for _, task in world.actors.values()) and all(task.is_done for task in world.retired)


def _observe(world: World, findings: list[str]) -> Observation:
    partitions = [(topic, index) for topic, count in world.setting.topics.items() for index in range(count)]
    shown: list[Shown] = []
    ends: dict[bool, dict[TopicPartition, int]] = {}
    for committed in (True, False):
        client = world.client(f"observer-{committed}")
        reader = Reader(client, world.notes, dict.fromkeys(partitions, 0), committed=committed)
        reader.trimmed = frozenset({TRIMMED})
        records: Shown = {where: [] for where in partitions}
        task = Task(world.scheduler, _read_to_the_end(reader, records))
        if not world.run_task(task, READING_MS):
            findings.append(f"stuck: a reader has only reached {reader.positions}")
        shown.append(records)
        ends[committed] = dict(reader.positions)
        client.close()
    client = world.client("observer-offsets")
    offsets: dict[TopicPartition, int] = {}
    inputs = [where for where in partitions if where[0] == INPUT]
    has_group = any(attempt.group for attempt in world.notes.history.attempts)
    if has_group and not world.run_task(Task(world.scheduler, _offsets(client, inputs, offsets)), READING_MS):
        findings.append("stuck: committed offsets are not returned")
    client.close()
    starts = _starts(world, partitions)
    for where, start in starts.items():
        for records in shown:
            records[where] = [one for one in records[where] if one[0] >= start or not world.is_cluster]
    if not all(node.is_up for node in world.machines):
        findings.append("a broker went down while the final state was read")
    findings += world.watch.lost_identities(world.nodes)
    unfinished = [
        f"{name} is {m.state.label}"
        for node in world.nodes
        if node.server is not None
        for shard in node.server.transactions.shards()
        for name, m in shard.ids.items()
        if m.state not in AT_REST
    ]
    return Observation(
        committed=shown[0],
        uncommitted=shown[1],
        stored={},
        ends={where: (ends[True][where], ends[False][where]) for where in partitions},
        offsets={GROUP_ID: offsets},
        starts=starts,
        unfinished=unfinished,
    )


def _starts(world: World, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return each partition's highest log start offset among its replicas. Omits partitions where this is 0.

    The leader may not know a deletion by a former leader, which may lead again while the final state is read.
    """
    starts: Counter[TopicPartition] = Counter()
    for node in world.nodes:
        for partition in () if node.server is None else node.server.partitions:
            where = (partition.log.topic, partition.log.partition)
            if where in partitions:
                starts[where] = max(starts[where], partition.log.log_start_offset)
    return {where: start for where, start in starts.items() if start}


def led(node: Node[BrokerServer]) -> list[Partition]:
    """Return the partitions that a broker leads according to its own metadata."""
    return [] if node.server is None else [partition for partition in node.server.partitions if partition.is_led]


def _read_to_the_end(reader: Reader, records: Shown) -> Steps[None]:
    """Read until two consecutive polls move no position. A single poll may have failed."""
    quiet = 0
    while quiet < 2:
        before = dict(reader.positions)
        came = yield from reader.poll()
        for where, batch in came.items():
            records[where] += batch
        quiet = 0 if reader.positions != before else quiet + 1


def _offsets(client: Any, inputs: list[TopicPartition], offsets: dict[TopicPartition, int]) -> Steps[None]:
    committed = yield from committed_offsets(client, GROUP_ID, inputs)
    offsets.update(committed)


def stored(files: Mapping[str, bytearray]) -> dict[TopicPartition, list[Stored]]:
    """Return all batches in the files of client topics and ``__consumer_offsets``. Raises AssertionError for a damaged batch."""
    stored_batches: dict[TopicPartition, list[Stored]] = defaultdict(list)
    for path in sorted(files):
        directory, _, name = path.rpartition("/")
        where = parse_directory_name(directory.removeprefix(f"{DATA_DIR}/"))
        if where is None or not name.endswith(".log") or (where[0].startswith("__") and where[0] != OFFSETS_TOPIC):
            continue
        raw = bytes(files[path])
        end = 0
        for at, header in batches(raw):
            batch = raw[at : at + header.size_bytes]
            is_sound = crc_is_valid(batch, header)
            assert is_sound, f"{path}: a batch with a wrong CRC at {at}"
            marker = read_marker(batch, header) if header.is_control else None
            is_data = marker is None and where[0] != OFFSETS_TOPIC
            stored_batches[where].append(
                Stored(
                    base_offset=header.base_offset,
                    next_offset=header.next_offset,
                    producer_id=header.producer_id,
                    is_transactional=header.is_transactional,
                    commit=None if marker is None else marker.commit,
                    values=[(record.value or b"").decode() for record in read_records(batch)] if is_data else [],
                )
            )
            end = at + header.size_bytes
        assert end == len(raw), f"{path}: {len(raw) - end} bytes after the last whole batch"
    return dict(stored_batches)
