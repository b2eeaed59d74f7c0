"""Random plans of the faults of each broker process in `tests.chaos.director`."""

from __future__ import annotations

import random

from tests.chaos.points import (
    ABORTED_INDEX,
    AFTER,
    BEFORE,
    COMPLETE,
    DATA,
    FILE,
    FULL,
    GROUP,
    IDENTITY,
    INDEX,
    KILL,
    MARKER,
    OFFSETS_MARKER,
    OTHERS,
    PAUSE,
    PREPARE,
    TERM,
    TORN,
    TRUNCATE,
    Fault,
)

ENDING_POINTS = [
    *((PREPARE, TORN), (PREPARE, AFTER)),
    *((MARKER, side) for side in (BEFORE, TORN, AFTER)),
    *((OFFSETS_MARKER, side) for side in (BEFORE, TORN, AFTER)),
    *((COMPLETE, side) for side in (BEFORE, TORN, AFTER)),
]
ABORT_POINTS = [(ABORTED_INDEX, side) for side in (BEFORE, TORN, AFTER)]
NEVER_TORN = {"file", "truncate"}
"""Kinds of writes that are never interrupted. A small file is replaced atomically."""
SELDOM = {ABORTED_INDEX, FILE, GROUP, IDENTITY, INDEX, TRUNCATE}
"""Kinds of writes that not every transaction causes, so a fault at these writes needs a small countdown."""
OTHER_POINTS = [
    (PREPARE, BEFORE),
    *((kind, side) for kind in OTHERS for side in (BEFORE, TORN, AFTER) if not (kind in NEVER_TORN and side == TORN)),
]
FULL_POINTS = [PREPARE, MARKER, OFFSETS_MARKER, ABORTED_INDEX, COMPLETE, DATA]
FULL_MS = (200, 1_200)

ORDINARY, CLIENT_KILLED, ZOMBIE = "ordinary", "client killed", "zombie"
SHARES = {PAUSE: 50, FULL: 12, TERM: 15, CLIENT_KILLED: 20, ZOMBIE: 30}
"""Number of kills per fault of each kind. Each data directory has at least one fault of each kind."""


def deck(kills: int, rng: random.Random) -> list[str]:
    """Return the faults for one data directory in random order: ``kills`` kills, and other faults in proportion to `SHARES`."""
    others = [sort for sort, share in SHARES.items() for _ in range(max(1, kills // share))]
    cards = [ORDINARY] * kills + others
    rng.shuffle(cards)
    return cards


def killing(rng: random.Random, *, inside_a_commit: bool) -> list[Fault]:
    """Plan a kill at a random write. Returns an empty list for a kill from outside."""
    commit: bool | None = None
    written = 0
    dice = 0.0 if inside_a_commit else rng.random()
    if dice < 0.45:
        kind, side = rng.choice(ENDING_POINTS)
        commit = True
        written = rng.choice([0, 1, 2]) if (kind, side) == (MARKER, BEFORE) else 0
    elif dice < 0.50:
        kind, side, commit = *rng.choice(ENDING_POINTS), False
    elif dice < 0.57:
        kind, side = rng.choice(ABORT_POINTS)
    elif dice < 0.85:
        kind, side = rng.choice(OTHER_POINTS)
    else:
        return []
    countdown = rng.choice([1, 1, 2, 3] if kind in SELDOM else [1, 1, 2, 3, 5, 8, 13, 21])
    return [Fault(kind, side, countdown, KILL, commit=commit, written=written, room_bytes=rng.randrange(7))]


def pausing(rng: random.Random) -> list[Fault]:
    """Plan a pause while a transaction ends, and a kill while a later transaction ends."""
    kind, side = rng.choice([(PREPARE, AFTER), (MARKER, BEFORE), (MARKER, AFTER), (COMPLETE, BEFORE), (COMPLETE, AFTER)])
    return [Fault(kind, side, rng.randrange(1, 6), PAUSE), Fault(COMPLETE, rng.choice([BEFORE, AFTER]), 20, KILL)]


def filling(rng: random.Random) -> list[Fault]:
    """Plan a disk that becomes full at a random write, for a limited time. The next write fits completely, partly or not at all."""
    room_bytes = rng.choice([0, rng.randrange(400)])
    return [Fault(rng.choice(FULL_POINTS), BEFORE, rng.randrange(1, 12), FULL, room_bytes=room_bytes, for_ms=rng.randint(*FULL_MS))]


def terminating(rng: random.Random) -> list[Fault]:
    """Plan a SIGTERM while a transaction ends."""
    kind, side = rng.choice([(kind, side) for kind, side in ENDING_POINTS if side != TORN])
    return [Fault(kind, side, rng.randrange(1, 12), TERM)]
