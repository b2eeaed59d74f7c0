"""The plan of a simulation: its clients (actors), and its faults with their times."""

from __future__ import annotations

import random
from pathlib import PurePath

import msgspec

KILL, POWER_CUT, STOP = "kill", "power cut", "stop"
CRASH_IN_WRITE, CRASH_IN_START = "crash in a write", "crash in a start"
CUT, CUT_TO, CUT_FROM, SLOW_NETWORK = "cut", "cut to the broker", "cut from the broker", "slow network"
FULL_DISK, SLOW_DISK, FAILED_SYNC = "full disk", "slow disk", "failed sync"
PAUSE, TAKE_OVER, KILL_CLIENT = "pause a client", "take over from a paused client", "kill a client"
CLOCK = "clock jump"
PAUSE_PROCESS, ISOLATE, CUT_APART, CUT_ONE_WAY = "pause a process", "isolate a machine", "cut two machines apart", "cut one way"
KILL_ALL = "kill all machines"

SHARES = {
    CRASH_IN_WRITE: 12,
    KILL: 3,
    POWER_CUT: 3,
    CRASH_IN_START: 3,
    STOP: 2,
    CUT: 4,
    CUT_TO: 4,
    CUT_FROM: 6,
    SLOW_NETWORK: 2,
    FULL_DISK: 3,
    SLOW_DISK: 2,
    FAILED_SYNC: 1,
    PAUSE: 3,
    TAKE_OVER: 5,
    KILL_CLIENT: 4,
    CLOCK: 1,
}
"""Relative frequency of each fault in simulations of one broker."""
CLUSTER_SHARES = {
    **SHARES,
    KILL: 8,
    POWER_CUT: 5,
    STOP: 7,
    PAUSE_PROCESS: 9,
    ISOLATE: 6,
    CUT_APART: 4,
    CUT_ONE_WAY: 7,
    KILL_ALL: 1,
}
"""Relative frequency of each fault in simulations of several brokers, which also have faults between machines."""
WRITTEN = (
    *("", "", "/__transaction_state-", "/__transaction_state-", "/__consumer_offsets-", "/a-", "/b-", "/in-", "/out-"),
    *(".txnindex", ".snapshot", "checkpoint", "/__cluster_metadata-"),
)
"""Parts of paths. For a crash in a write one part is drawn: the write is to a path that contains this part. Every path contains the
empty part.
"""
READING = ("watch", "admin", "mover")
"""Prefixes of the roles whose actors write no records."""
LONGEST_MS = 4_000
MAX_FAULTS = 8


class PlannedFault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault. ``actor`` is an index into the plan's actors, ``node`` an index into the brokers followed by the controller.

    ``number`` depends on ``kind``: disk operations before a crash, factor of slowness, clock jump in ms, or index of a second node.
    """

    kind: str
    at_ms: int
    for_ms: int = 0
    node: int = 0
    actor: int = 0
    number: int = 0
    within: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """``actors`` are clients: role and transactional id, such as ``feed:feed-0``. ``seed`` decides the rest, such as delays."""

    seed: int
    transactions: int
    durability: str
    transaction_version: int
    skew_ms: int
    actors: tuple[str, ...]
    faults: tuple[PlannedFault, ...]
    brokers: int = 1


def draw(seed: int, transactions: int = 100, *, brokers: int = 1) -> Plan:
    """Draw the seed's random plan. Several brokers have a separate controller."""
    rng = random.Random(seed)
    actors = ["feed:feed-0", "pipe:pipe-0", "plain:plain-0"]
    actors += rng.sample(
        ["feed:feed-1", "pipe:pipe-1", "plain:plain-1", "plain:plain-2", "solo:solo-0", "solo:solo-1"], rng.randrange(2, 6)
    )
    actors += rng.sample(["watch:w-0", "watch_all:w-1", "admin:ad-0"], rng.randrange(1, 4))
    if brokers > 1 and rng.random() < 0.5:
        actors.append("mover:mo-0")
    durability, transaction_version, skew_ms = rng.choice(("process", "power")), rng.choice((1, 2)), rng.randrange(-30_000, 30_000)
    faults = [_fault(rng, actors, brokers) for _ in range(rng.randrange(MAX_FAULTS + 1))]
    return Plan(
        seed=seed,
        transactions=transactions,
        durability=durability,
        transaction_version=transaction_version,
        skew_ms=skew_ms,
        actors=tuple(sorted(actors)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        brokers=brokers,
    )


def _fault(rng: random.Random, actors: list[str], brokers: int) -> PlannedFault:
    shares = SHARES if brokers == 1 else CLUSTER_SHARES
    (kind,) = rng.choices(list(shares), list(shares.values()))
    writers = [at for at, actor in enumerate(sorted(actors)) if not actor.startswith(READING)]
    node, number, within = 0, 0, ""
    if brokers > 1:
        # Each broker is drawn twice as often as the controller.
        node = rng.choice((*range(brokers), *range(brokers), brokers))
    if kind == CRASH_IN_WRITE:
        within = rng.choice(WRITTEN)
        number = rng.choice((0, 1, 2, 3, 5, 8, 13, 21))
    elif kind == CRASH_IN_START:
        number = rng.randrange(25)
    elif kind in (SLOW_NETWORK, SLOW_DISK):
        number = rng.choice((5, 20, 100))
    elif kind in (CUT_APART, CUT_ONE_WAY):
        number = rng.choice([other for other in range(brokers + 1) if other != node])
    elif kind == CLOCK:
        number = rng.choice((-1, 1)) * rng.randrange(100, 20_000)
    return PlannedFault(
        kind=kind,
        at_ms=rng.randrange(50, LONGEST_MS),
        for_ms=rng.choice((20, 100, 300, 1_000, 2_500, 6_000)),
        node=node,
        actor=rng.choice(writers),
        number=number,
        within=within,
    )


def encode(plan: Plan) -> bytes:
    return msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"


def decode(text: bytes) -> Plan:
    """Parse a plan. Raises `msgspec.ValidationError` for a text that is not a plan."""
    return msgspec.json.decode(text, type=Plan)


def named(plan: Plan, folder: PurePath) -> PurePath:
    """Return the file path for a failed plan."""
    return folder / f"seed-{plan.seed}.json"
