"""Crash states of a broker's disk: all acknowledged writes are present, and no transaction is torn (partly lost)."""

from __future__ import annotations

import math
import os
import random

import pytest

from ottla.coordinator.result import LogRecord
from ottla.coordinator.transaction.metadata import TxnMetadata, from_record
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.markers import read_marker
from ottla.protocol.records import batches, crc_is_valid, read_records
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.simulation.torn_disk import TornDisk
from ottla.storage.log import Log
from ottla.storage.reading import read
from ottla.storage.recovery import open_log
from tests.crash.load import IDS, REPLACED, SETTINGS, TIMEOUT_MS, TOPICS, Story, Transaction, run_load
from tests.scenarios.play import perform
from tests.scenarios.views import visible
from tests.scenarios.world import World
from tests.support.budgets import WithinBudget
from tests.support.logs import stored

pytestmark = pytest.mark.heavy

STATES_A_BOUNDARY = 5
STATES_IN_FAST = 50
STATES = int(os.environ.get("CRASH_STATES", "2000"))
STATES_A_LOAD = 200
"""Crash states per workload. A state of a long workload takes longer to check, so there are many short workloads."""
TRANSACTIONS = 60


def started(image: dict[str, bytes], durability: str, story: Story) -> SimulatedBroker:
    return SimulatedBroker(SETTINGS | {"ottla.durability": durability}, fs=MemoryFilesystem(image), now_ms=story.ended_ms).start()


def check_derived(log: Log) -> None:
    """Check that last stable offset, aborted transactions, indexes and producer state agree with the stored batches."""
    opened: dict[int, int] = {}
    aborted: list[tuple[int, int]] = []
    at = log.segments[0].base_offset if log.segments else 0
    for header, raw in stored(log):
        assert header.base_offset == at, "the offsets of the batches are not contiguous"
        at = header.next_offset
        if header.is_control:
            first = opened.pop(header.producer_id, None)
            marker = read_marker(raw, header)
            if first is not None and marker is not None and not marker.commit:
                aborted.append((first, header.producer_id))
        elif header.is_transactional:
            opened.setdefault(header.producer_id, header.base_offset)
    assert at == log.log_end_offset or not log.segments
    stable = min(opened.values(), default=log.log_end_offset)
    assert log.last_stable_offset == stable
    listed: set[tuple[int, int]] = set()
    position = log.log_start_offset
    while position < stable:
        piece = read(log, position, 1 << 20, committed=True)
        listed |= {(a.first_offset, a.producer_id) for a in piece.aborted or ()}
        position = [h for _, h in batches(piece.data)][-1].next_offset
    assert listed == {a for a in aborted if a[0] < stable}
    fs = log.fs
    assert isinstance(fs, MemoryFilesystem)
    bare = MemoryFilesystem({p: d for p, d in fs.files.items() if p.startswith(f"{log.directory}/") and p.endswith(".log")})
    again = Log(bare, log.directory, log.topic, log.partition, log.config)
    open_log(again, 1, clean=False)
    assert again.producers.open_txns == log.producers.open_txns
    # A producer snapshot also contains producers whose last batch was deleted.
    first_stored = log.segments[0].base_offset if log.segments else 0
    kept = {p: e for p, e in log.producers.entries.items() if not 0 <= e.last_offset < first_stored}
    assert {p: (e.epoch, e.last_sequence) for p, e in again.producers.entries.items()} == {
        p: (e.epoch, e.last_sequence) for p, e in kept.items()
    }


def check(story: Story, count: int, name: str, image: dict[str, bytes], durability: str) -> None:
    """Start a broker on a crash state and check its data. Then crash it after its recovery, restart it and check again."""
    promised = name == "kept" or durability == "power"
    broker = started(image, durability, story)
    if "t" not in broker.broker.cluster.state.topics or "u" not in broker.broker.cluster.state.topics:
        assert not story.acknowledged or story.acknowledged[0][0] > count or not promised
        broker.abandon()
        return
    for partition in broker.broker.partitions:
        if partition.log.segments:
            check_derived(partition.log)
    again = started({p: bytes(d) for p, d in broker.fs.files.items()}, durability, story)  # type: ignore[attr-defined]
    check_generation(story, count, broker, promised=promised)
    seen = values_by_partition(broker)
    assert values_by_partition(again) == seen, "a crash during recovery changed the data"
    again.abandon()
    if promised:
        assert name != "kept" or not broker.broker.torn, "a kill has torn a transaction"
        check_promises(story, count, broker, seen)
    else:
        check_prefixes(story, seen)
        check_audit(story, broker, accountable(image))
    assert broker.bugs == 0
    assert broker.broker.unexpected_errors == 0
    broker.abandon()


def check_generation(story: Story, count: int, broker: SimulatedBroker, *, promised: bool) -> None:
    """Check that values and log start offset of the recreated topic belong to a single incarnation of the topic."""
    begun = [generation for generation in story.generations if generation.asked_at <= count]
    live = next((g for g in begun if g.made_at <= count <= g.doomed_at), None)
    if REPLACED not in broker.broker.cluster.state.topics:
        assert live is None or not promised
        return
    log = broker.broker.partitions.get(REPLACED, 0).log
    assert log.offline_reason is None
    values = [(record.value or b"").decode().rstrip(".") for _, raw in stored(log) for record in read_records(raw)]
    first = log.segments[0].base_offset if log.segments else 0
    fitting = [g for g in begun if [value for _, value in g.values][first : first + len(values)] == values]
    assert fitting, f"{values} belong to no generation of the topic"
    if live is not None and promised:
        assert live in fitting, "the topic has values of an earlier generation"
        assert first + len(values) >= sum(at <= count for at, _ in live.values)
        assert log.log_start_offset >= max((start for _, told_at, start in live.starts if told_at <= count), default=0)
        fitting = [live]
    asked = {start for generation in fitting for asked_at, _, start in generation.starts if asked_at <= count}
    assert log.log_start_offset in {0, first} | asked, "the topic has the log start offset of an earlier generation"


def values_by_partition(broker: SimulatedBroker) -> dict[str, list[str]]:
    world = World(broker, "ottla", "")
    by_partition = {}
    for where in TOPICS:
        topic, index = world.partition(where)
        log = broker.broker.partitions.get(topic, index).log
        values = [r.value for h, raw in stored(log) if not h.is_control for r in read_records(raw)]
        by_partition[where] = [(v or b"").decode().rstrip(".") for v in values]
    world.close()
    return by_partition


def check_prefixes(story: Story, seen: dict[str, list[str]]) -> None:
    """Check that a power cut has removed records only at the end of a partition."""
    for where, values in seen.items():
        history = [value for _, at, _, value in story.acknowledged if at == where]
        shared = min(len(values), len(history))
        assert values[:shared] == history[:shared]


def accountable(image: dict[str, bytes]) -> set[str]:
    """Return transactional ids whose last stored state is before the decision, so that an audit can detect lost writes.

    For a decided transaction, writes that were lost before its marker cannot be detected.
    """
    newest: dict[str, TxnMetadata | None] = {}
    for path in sorted(p for p in image if "/__transaction_state-" in p and p.endswith(".log")):
        for at, header in batches(image[path]):
            raw = image[path][at : at + header.size_bytes]
            if crc_is_valid(raw, header):
                for record in read_records(raw):
                    name, metadata = from_record(LogRecord(record.key, record.value))
                    newest[name] = metadata
    return {name for name, metadata in newest.items() if metadata is not None and metadata.state not in PREPARED}


def check_audit(story: Story, broker: SimulatedBroker, accountable: set[str]) -> None:
    """Check that the audit reports every decided transaction that lacks markers (STO-19). A kill leaves none."""
    if TRANSACTION_TOPIC not in broker.broker.cluster.state.topics:
        # The crash has lost the metadata records of the topic.
        return
    torn = broker.broker.torn
    # An open transaction hides later records until its timeout.
    broker.sleep(TIMEOUT_MS + 2_000)
    named = {lost.transactional_id for lost in torn}
    # Consumers cannot read the records after a hanging transaction either.
    places = {(lost.topic, lost.partition) for lost in torn}
    world = World(broker, "ottla", "")
    committed = {where: set(visible(world, world.partition(where), committed=True)) for where in TOPICS}
    for transaction in story.transactions:
        shown = {where: [v in committed[where] for v in values] for where, values in transaction.values.items()}
        flags = [one for partition_flags in shown.values() for one in partition_flags]
        if any(flags) and not all(flags) and transaction.name in accountable:
            lacking = {world.partition(where) for where, partition_flags in shown.items() if not all(partition_flags)}
            assert transaction.name in named or lacking & places, f"{transaction} is torn but not reported"
    world.close()


def check_promises(story: Story, count: int, broker: SimulatedBroker, seen: dict[str, list[str]]) -> None:
    """Check that acknowledged records and outcomes exist, and that no transaction is torn (partly lost)."""
    for acknowledged_at, where, _, value in story.acknowledged:
        if acknowledged_at <= count:
            assert value in seen[where]
    # Wait until open transactions have timed out.
    broker.sleep(TIMEOUT_MS + 2_000)
    world = World(broker, "ottla", "")
    committed = {where: set(visible(world, world.partition(where), committed=True)) for where in TOPICS}
    for name in IDS:
        assert not perform(world, f"describe {name}").startswith(("Prepare", "Ongoing"))
    world.close()
    for transaction in story.transactions:
        check_whole(transaction, count, committed, seen)


def check_whole(transaction: Transaction, count: int, committed: dict[str, set[str]], seen: dict[str, list[str]]) -> None:
    shown = [value in committed[where] for where, values in transaction.values.items() for value in values]
    if transaction.acknowledged_at and transaction.acknowledged_at <= count:
        assert all(s is transaction.commit for s in shown), "an acknowledged outcome has changed"
        return
    stored = [value in seen[where] for where, values in transaction.values.items() for value in values]
    if any(shown):
        assert all(stored), "a committed transaction has lost a record"
        assert all(shown), "a transaction is only partly visible"
        assert transaction.commit, "a transaction is visible although its commit was not requested"


def run(durability: str, states: int, seed: int) -> int:
    """Check about ``states`` crash states of one workload, a fifth of them after a rename or an unlink.

    Returns the number of checked states.
    """
    story = run_load(durability, TRANSACTIONS, seed)
    rng = random.Random(seed)
    moves = [n for n, op in enumerate(story.trace, 1) if op.kind in ("rename", "unlink")]
    wanted = states // STATES_A_BOUNDARY
    chosen = set(rng.sample(moves, min(len(moves), wanted // 5)))
    chosen |= set(rng.sample(range(1, len(story.trace) + 1), min(len(story.trace), wanted)))
    disk = TornDisk()
    checked = 0
    for count, op in enumerate(story.trace, 1):
        disk.apply(op)
        if count not in chosen:
            continue
        for name, image in disk.states(rng):
            check(story, count, name, image, durability)
            checked += 1
    return checked


@pytest.mark.parametrize("durability", ["process", "power"])
def test_broker_recovers_from_crash_states_of_one_workload(durability: str) -> None:
    assert run(durability, STATES_IN_FAST, 1) >= STATES_IN_FAST


@pytest.mark.full
@pytest.mark.entry("STO-08", "STO-18", "STO-19")
@pytest.mark.parametrize("durability", ["process", "power"])
def test_broker_recovers_from_crash_states_of_many_workloads(durability: str, within_budget: WithinBudget) -> None:
    loads = range(2, 2 + math.ceil(STATES / 2 / STATES_A_LOAD))
    for seed in within_budget(loads, seconds=20, floor=1):
        assert run(durability, STATES_A_LOAD, seed) >= STATES_A_LOAD
