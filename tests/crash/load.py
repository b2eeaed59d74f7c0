"""A workload of transactions on a disk that records its operations as a trace, with the trace length at each acknowledgement."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.tracing_filesystem import Op, TracingFilesystem
from tests.scenarios.play import perform
from tests.scenarios.world import World

TOPICS = ("t", "t/1", "u")
REPLACED = "v"
"""A topic that the workload deletes and recreates. No transaction writes to it."""
IDS = ("x", "y", "z")
TIMEOUT_MS = 10_000
"""Transaction timeout. It is longer than any transaction of the workload.

After a crash, the tests advance the simulated time until open transactions have timed out.
"""
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "3000",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}


@dataclass(slots=True)
class Transaction:
    """The writes of one transaction.

    ``acknowledged_at`` is the trace length when the response to EndTxn arrived, or 0 if there was none.
    """

    name: str
    values: dict[str, list[str]] = field(default_factory=dict)
    offset: int | None = None
    commit: bool = False
    asked: bool = False
    acknowledged_at: int = 0


@dataclass(slots=True)
class Generation:
    """One incarnation of the topic `REPLACED`, from its creation to its deletion.

    All times are positions in the trace of file operations: when the creation was requested and acknowledged, and when the deletion
    was requested. ``values`` are records with the time of the acknowledgement. ``starts`` are log start offsets with the times of
    request and response.
    """

    asked_at: int
    made_at: int = 0
    doomed_at: int = 1 << 62
    values: list[tuple[int, str]] = field(default_factory=list)
    starts: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Story:
    """A trace of disk operations, and the facts that must hold after a crash.

    ``acknowledged`` lists the acknowledged records as trace length, partition, offset and value.
    """

    trace: list[Op]
    ended_ms: int = 0
    generations: list[Generation] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    acknowledged: list[tuple[int, str, int, str]] = field(default_factory=list)


def run_load(durability: str, transactions: int, seed: int) -> Story:
    """Run the workload, and return its trace with all acknowledgements.

    Each request is answered before the next is sent, so trace lengths determine which responses preceded a disk operation.
    """
    rng = random.Random(seed)
    fs = TracingFilesystem()
    broker = SimulatedBroker(SETTINGS | {"ottla.durability": durability}, fs=fs, seed=seed).start()
    world = World(broker, "ottla", "")
    story = Story(fs.trace)
    for command in ("topic t partitions=2 internal.segment.bytes=1200", "topic u internal.segment.bytes=1500", "N = init"):
        perform(world, command)
    for name in IDS:
        assert perform(world, f"{name.upper()} = init {name} timeout={TIMEOUT_MS}").startswith("NONE")
    _make_again(world, story)
    open_by: dict[str, Transaction] = {}
    while len(story.transactions) < transactions or open_by:
        name = rng.choice(IDS)
        _step(world, rng, story, open_by, name, may_begin=len(story.transactions) < transactions)
        if rng.random() < 0.15:
            _use_replaced(world, rng, story)
        if rng.random() < 0.02:
            broker.sleep(1_000)
        if rng.random() < 0.01:
            perform(world, rng.choice(["restart", "kill"]))
    world.close()
    story.ended_ms = broker.now_ms()
    broker.abandon()
    return story


def _make_again(world: World, story: Story) -> None:
    made = Generation(asked_at=len(story.trace))
    story.generations.append(made)
    perform(world, f"topic {REPLACED} internal.segment.bytes=1200")
    made.made_at = len(story.trace)


def _use_replaced(world: World, rng: random.Random, story: Story) -> None:
    current = story.generations[-1]
    if rng.random() < 0.25:
        current.doomed_at = len(story.trace)
        perform(world, f"delete {REPLACED}")
        _make_again(world, story)
    elif current.values and rng.random() < 0.2:
        start = rng.randrange(len(current.values)) + 1
        asked_at = len(story.trace)
        assert "NONE" in perform(world, f"delete_records {REPLACED} before={start}")
        current.starts.append((asked_at, len(story.trace), start))
    else:
        assert perform(world, f"produce N {REPLACED} size={rng.randrange(20, 200)}").startswith("NONE @")
        current.values.append((len(story.trace), f"n{world.actors['N'].written}"))


def _step(world: World, rng: random.Random, story: Story, open_by: dict[str, Transaction], name: str, *, may_begin: bool) -> None:
    actor = name.upper()
    if rng.random() < 0.15:
        where = rng.choice(TOPICS)
        _note(world, story, where, perform(world, f"produce N {where} size={rng.randrange(20, 200)}"), "N")
        return
    current = open_by.get(name)
    if current is None:
        if not may_begin:
            return
        current = open_by[name] = Transaction(name)
        story.transactions.append(current)
    elif rng.random() < 0.35:
        current.commit, current.asked = rng.random() < 0.7, True
        answer = perform(world, f"{'commit' if current.commit else 'abort'} {actor}")
        assert answer.startswith("NONE"), answer
        current.acknowledged_at = len(story.trace)
        del open_by[name]
        return
    if rng.random() < 0.2:
        current.offset = rng.randrange(1_000)
        assert perform(world, f"offsets {actor} g-{name} t={current.offset}") == "NONE"
        return
    where = rng.choice(TOPICS)
    answer = perform(world, f"produce {actor} {where} size={rng.randrange(20, 200)}")
    value = _note(world, story, where, answer, actor)
    current.values.setdefault(where, []).append(value)


def _note(world: World, story: Story, where: str, answer: str, actor: str) -> str:
    assert answer.startswith("NONE @"), answer
    value = f"{actor.lower()}{world.actors[actor].written}"
    story.acknowledged.append((len(story.trace), where, int(answer.split("@")[1].split(maxsplit=1)[0]), value))
    return value
