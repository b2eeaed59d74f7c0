"""Topics, groups and producers that the requests of one run use, with their last known state."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.protocol.primitives import NO_UUID

TOPICS = ("t", "u", "compacted", "stamped", "small", "fresh-1", "fresh-2", "a.b", "a_b")
INTERNAL = ("__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state")
BAD_NAMES = ("", ".", "..", "a/b", "../t-0", "x" * 249, "x" * 250, "nul\0", "\u00e9", "t-0", "\U0001f600", " ", "t\n", "x" * 40_000)
GROUPS = ("g", "h", "simple", "static")
TRANSACTIONAL_IDS = ("x", "y", "z")
MAX_KNOWN = 12


class Dice(random.Random):
    """Random numbers with a faster `choice`.

    It uses one multiplication, which is sufficient for short sequences and takes a third of the time.
    """

    def choice(self, seq: Sequence[Any]) -> Any:
        return seq[int(self.random() * len(seq))]


@dataclass(slots=True)
class Producer:
    """A producer's identity, and its next sequence for each partition that it has written to."""

    transactional_id: str | None
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    def sequence(self, topic: str, partition: int) -> int:
        return self.sequences.get((topic, partition), 0) if self.producer_id >= 0 else -1

    def became(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch


@dataclass(slots=True)
class Member:
    """A member of a group, with the state that its client knows."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    leads: bool = False
    all_members: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Cast:
    """Topic, partition, producer and member of one request, so that its fields are consistent."""

    topic: str
    partition: int
    producer: Producer
    member: Member
    now_ms: int


class Vocabulary:
    """Every name and id that the run has used so far."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.topic_ids: dict[str, bytes] = {}
        self.producers = [Producer(name) for name in TRANSACTIONAL_IDS] + [Producer(None), Producer(None)]
        self.members = [Member(group) for group in GROUPS[:2] for _ in range(2)] + [Member("static", instance_id="i")]
        self.sessions: list[tuple[int, int]] = [(0, 0), (0, -1)]
        self.past: list[tuple[int, int]] = []
        """Earlier producer ids and epochs of producers."""

    def cast(self, now_ms: int) -> Cast:
        rng = self._rng
        return Cast(
            topic=rng.choice(TOPICS[:5]),
            partition=rng.choice((0, 0, 0, 1, 1, 2)),
            producer=rng.choice(self.producers),
            member=rng.choice(self.members),
            now_ms=now_ms,
        )

    def topic(self) -> str:
        """Return the name of a topic, in rare cases an invalid name."""
        rng = self._rng
        draw = rng.random()
        return rng.choice(TOPICS if draw < 0.85 else INTERNAL if draw < 0.93 else BAD_NAMES)

    def topic_id(self, name: str) -> bytes:
        draw = self._rng.random()
        if draw < 0.9:
            return self.topic_ids.get(name, NO_UUID)
        return NO_UUID if draw < 0.95 else self._rng.randbytes(16)

    def group(self) -> str:
        return self._rng.choice((*GROUPS, *GROUPS, "new", "", "\u00e9", "x" * 300))

    def knows_session(self, session_id: int) -> None:
        if session_id:
            self.sessions = [*self.sessions[-MAX_KNOWN:], (session_id, 1)]

    def knows_identity(self, transactional_id: str | None, producer_id: int, epoch: int) -> None:
        """Store the producer id and epoch from an InitProducerId or EndTxn response."""
        mine = [p for p in self.producers if p.transactional_id == transactional_id]
        if not mine or producer_id < 0:
            return
        producer = self._rng.choice(mine)
        self.past = [*self.past[-MAX_KNOWN:], (producer.producer_id, producer.epoch)]
        producer.became(producer_id, epoch)
