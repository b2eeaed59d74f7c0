"""Faults of brokers and members in the share group campaign.

The leader of a share partition uses only the share coordinator on its own broker (docs/features.md). After each fault, one broker
therefore gets all three roles again: partition leader, group coordinator and share coordinator. Some faults move a role to
another broker on purpose, and may kill a broker while the roles are on different brokers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress

from ottla.client.errors import ClientError
from ottla.protocol.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from ottla.protocol.topic_partition import TopicPartition
from ottla.testing.cluster_handle import CONTROLLER, Cluster
from tests.chaos import rounds
from tests.chaos.share.members import Members

TOPIC, PARTITIONS = "shared", 3
SHARED = [(TOPIC, index) for index in range(PARTITIONS)]
STATE, OFFSETS = (SHARE_STATE_TOPIC, 0), (OFFSETS_TOPIC, 0)
ALL = [*SHARED, STATE, OFFSETS]

COORDINATOR = "share coordinator killed"
LEADER = "partition leader killed"
GROUPS = "group coordinator killed"
FOLLOWER = "follower killed"
EVERYONE = "all brokers killed"
CONTROL = "controller killed"
PAUSED = "leader paused"
STOPPED = "leader stopped"
CUT = "network cut"
MOVED = "all leaders moved"
APART = "share coordinator moved for a while"
MEMBER_KILLED = "member killed"
MEMBER_PAUSED = "member paused"
MEMBER_CLOSED = "member closed"
DECK = (
    *(COORDINATOR, COORDINATOR, LEADER, LEADER, GROUPS, GROUPS, FOLLOWER, EVERYONE, CONTROL),
    *(PAUSED, PAUSED, STOPPED, CUT, MOVED, MOVED, APART, APART),
    *(MEMBER_KILLED, MEMBER_KILLED, MEMBER_KILLED, MEMBER_PAUSED, MEMBER_PAUSED, MEMBER_CLOSED),
)
OF_MEMBERS = (MEMBER_KILLED, MEMBER_PAUSED, MEMBER_CLOSED)
ROLES = {COORDINATOR: [STATE], LEADER: SHARED, GROUPS: [OFFSETS]}
GATHER_S = 60.0
AWAY_S = (0.1, 2.5)
APART_S = (0.1, 2.0)
OVER_S = (0.5, 1.5)
"""Range of the time by which a pause exceeds the session timeout or the lock duration, in seconds."""


class Cards:
    """Injects faults into a cluster and its members. After each broker fault, all leaders are moved to one broker again."""

    def __init__(
        self, cluster: Cluster, members: Members, rng: random.Random, note: Callable[[str], None], session_s: float, lock_s: float
    ) -> None:
        self._cluster = cluster
        self._members = members
        self._rng = rng
        self._note = note
        self._session_s = session_s
        self._lock_s = lock_s

    def play(self, card: str) -> None:
        if card == MEMBER_KILLED:
            self._members.kill_one(self._rng)
        elif card == MEMBER_CLOSED:
            self._members.close_one(self._rng)
        elif card == MEMBER_PAUSED:
            self._members.pause_one(self._rng, self._lock_s + self._rng.uniform(*OVER_S))
        else:
            self._of_brokers(card)
            self._cluster.heal()
            self.gather(self._leader(STATE))

    def _of_brokers(self, card: str) -> None:
        cluster, rng = self._cluster, self._rng
        leader = self._leader(STATE)
        others = [broker for broker in cluster.brokers if broker != leader]
        if card in ROLES:
            self._kill_role(rng.choice(ROLES[card]), rng.choice(others))
        elif card == FOLLOWER:
            self._kill([rng.choice(others)])
        elif card == EVERYONE:
            self._kill(rng.sample(cluster.brokers, len(cluster.brokers)))
        elif card == CONTROL:
            self._kill([CONTROLLER])
        elif card == PAUSED:
            cluster.pause(leader)
            time.sleep(self._session_s + rng.uniform(*OVER_S))
        elif card == STOPPED:
            cluster.restart(leader)
        elif card == CUT:
            cluster.partition(leader)
            time.sleep(rng.uniform(0.5, 1.5) * self._session_s)
        elif card == MOVED:
            self.gather(rng.choice(others))
        elif card == APART:
            self._move(STATE, rng.choice(others))
            time.sleep(rng.uniform(*APART_S))
        else:
            raise ValueError(card)

    def _kill_role(self, role: TopicPartition, to: int) -> None:
        """Kill the broker with a role. In half of the cases, move the role to another broker before."""
        if self._rng.random() < 0.5:
            self._note(f"  {role} to broker {to}")
            self._move(role, to)
            time.sleep(self._rng.uniform(*APART_S))
        self._kill([self._leader(role)])

    def _kill(self, nodes: list[int]) -> None:
        self._note(f"  killed {nodes}")
        for node in nodes:
            self._cluster.kill(node)
        time.sleep(self._rng.uniform(*AWAY_S))
        self._note("  restarted")
        for node in nodes:
            self._cluster.restart(node)

    def _leader(self, where: TopicPartition) -> int:
        return rounds.leader(self._cluster, where) or self._rng.choice(self._cluster.brokers)

    def _move(self, where: TopicPartition, to: int) -> None:
        with suppress(ClientError, TimeoutError):
            self._cluster.move_leader(*where, to)

    def gather(self, to: int) -> None:
        """Make one broker the leader of all partitions. Raises TimeoutError."""
        self._note(f"  all to broker {to}")
        deadline = time.monotonic() + GATHER_S
        while elsewhere := [where for where in ALL if rounds.leader(self._cluster, where) != to]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"broker {to} does not lead {elsewhere} after {GATHER_S:g} s")
            for where in elsewhere:
                if to in rounds.in_sync(self._cluster, where):
                    self._move(where, to)
            time.sleep(0.05)
