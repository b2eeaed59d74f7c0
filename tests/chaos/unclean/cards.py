"""Faults after which a partition has no available in-sync replica, and faults that leave followers with a lag."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ottla.client.errors import ClientError
from ottla.protocol.topic_partition import TopicPartition
from ottla.testing.cluster_handle import CONTROLLER
from tests.chaos import rounds
from tests.chaos.campaigns import Campaign
from tests.chaos.unclean.power import SyncedLengths, cut_power

LAST = "last in-sync replica killed"
ORDER = "followers killed, then the leader"
LAST_EMPTIED = "last in-sync replica lost its disk"
ALL = "all killed"
POWER = "power cut"
POWER_OF_SEVERAL = "power cut of several"
EMPTIED = "directory deleted"
CUT = "network cut"
STARTING = "killed while starting"
PAUSED = "paused"
CONTROL = "controller killed"
MOVED = "leader moved"

DECK = (LAST, LAST, ORDER, ORDER, ALL, ALL, CUT, STARTING, PAUSED, CONTROL, MOVED, EMPTIED)
LOSSY = (LAST, LAST_EMPTIED, POWER)
"""Further faults of campaigns with unclean elections, in which they lose committed records."""
POWER_CUTS = (POWER, POWER_OF_SEVERAL, POWER_OF_SEVERAL)
"""Further faults of brokers whose responses wait for the sync: power cuts, which lose no acknowledged data."""
FALL_OUT_S = 10.0
"""Maximum time until followers have left the in-sync replicas, in seconds."""
ALONE_S = (0.3, 1.5)
"""Range of the time that the last in-sync replica runs alone, in seconds."""
OVER_SESSION_S = (0.5, 2.0)


class Cards:
    """Injects faults into a cluster. After each fault, all brokers are running again."""

    def __init__(
        self,
        campaign: Campaign,
        rng: random.Random,
        note: Callable[[str], None],
        partitions: Sequence[TopicPartition],
        all_partitions: Sequence[TopicPartition],
        synced: SyncedLengths,
    ) -> None:
        self._campaign = campaign
        self._cluster = campaign.cluster
        self._rng = rng
        self._note = note
        self._partitions = partitions
        self._all_partitions = all_partitions
        self._synced = synced
        self.lost_bytes: Counter[str] = Counter()
        """Number of bytes that faults have removed from logs, by reason."""

    def play(self, card: str) -> None:
        if card in (LAST, LAST_EMPTIED):
            self._last(is_emptied=card == LAST_EMPTIED)
        elif card == ORDER:
            self._followers_first()
        elif card == ALL:
            self._kill(self._cluster.brokers)
        elif card == POWER:
            rounds.await_in_sync(self._cluster, self._all_partitions)
            self._kill([self._victim()], has_power=False)
        elif card == POWER_OF_SEVERAL:
            self._kill(self._rng.sample(self._cluster.brokers, self._rng.randint(1, 3)), has_power=False)
        elif card == EMPTIED:
            rounds.await_in_sync(self._cluster, self._all_partitions)
            self._empty(self._victim())
            rounds.await_in_sync(self._cluster, self._all_partitions)
        else:
            self._usual(card)
        self._cluster.heal()

    def _usual(self, card: str) -> None:
        cluster, rng = self._cluster, self._rng
        if card == CONTROL:
            self._kill([CONTROLLER])
            return
        victim = self._victim()
        self._note(f"  broker {victim}")
        if card == CUT:
            cluster.partition(victim)
            time.sleep(rng.uniform(0.5, 2.0) * self._away_s())
        elif card == STARTING:
            self._campaign.kill_while_starting(victim, rng)
        elif card == PAUSED:
            cluster.pause(victim)
            time.sleep(self._away_s())
        elif card == MOVED:
            topic, index = rng.choice(self._partitions)
            with suppress(ClientError, TimeoutError):
                cluster.move_leader(topic, index, victim)
        else:
            raise ValueError(card)

    def _away_s(self) -> float:
        """Return a random time that is longer than the session timeout, in seconds."""
        return self._campaign.session_ms / 1000 + self._rng.uniform(*OVER_SESSION_S)

    def _victim(self) -> int:
        return self._leader(self._rng.choice(self._partitions))

    def _leader(self, where: TopicPartition) -> int:
        return rounds.leader(self._cluster, where) or self._rng.choice(self._cluster.brokers)

    def _kill(self, nodes: Sequence[int], *, has_power: bool = True) -> None:
        """Kill nodes in a random order and restart them in another order. Without ``has_power``, their unsynced data is lost."""
        cluster, rng = self._cluster, self._rng
        killed = rng.sample(list(nodes), len(nodes))
        started = rng.sample(list(nodes), len(nodes))
        self._note(f"  killed {killed}, to be started as {started}")
        for node in killed:
            cluster.kill(node)
            time.sleep(rng.choice([0.0, rng.uniform(0.0, self._away_s())]))
        if not has_power:
            lost = {node: cut_power(self._campaign.log_dir(node), self._synced, rng) for node in killed}
            self._note(f"  bytes lost: {lost}")
            self.lost_bytes["not synced"] += sum(lost.values())
        time.sleep(rng.uniform(0.1, self._away_s()))
        for node in started:
            cluster.restart(node)
            time.sleep(rng.choice([0.0, rng.uniform(0.0, 2.0)]))

    def _last(self, *, is_emptied: bool) -> None:
        """Disconnect the leader of a partition from its followers, let it run alone, kill it and restart it."""
        cluster, where = self._cluster, self._rng.choice(self._partitions)
        leader = self._leader(where)
        self._note(f"  broker {leader}, of {where}")
        cluster.partition(leader)
        self._await_alone(where, leader)
        cluster.kill(leader)
        if is_emptied:
            self._clear(leader)
        self._note("  killed")
        time.sleep(self._away_s())
        cluster.restart(leader)

    def _followers_first(self) -> None:
        """Kill the followers of a partition, let its leader run alone, and kill the leader. The followers are restarted first."""
        cluster, rng, where = self._cluster, self._rng, self._rng.choice(self._partitions)
        leader = self._leader(where)
        followers = [broker for broker in rng.sample(cluster.brokers, len(cluster.brokers)) if broker != leader]
        self._note(f"  {followers}, then broker {leader}, of {where}")
        for follower in followers:
            cluster.kill(follower)
            time.sleep(rng.uniform(0.0, self._away_s()))
        self._await_alone(where, leader)
        cluster.kill(leader)
        time.sleep(rng.choice([0.0, self._away_s()]))
        for follower in rng.sample(followers, len(followers)):
            cluster.restart(follower)
            time.sleep(rng.uniform(0.0, 1.0))
        time.sleep(self._away_s())
        cluster.restart(leader)

    def _await_alone(self, where: TopicPartition, leader: int) -> None:
        deadline = time.monotonic() + FALL_OUT_S
        while rounds.in_sync(self._cluster, where) != [leader] and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(self._rng.uniform(*ALONE_S))
        self._note(f"  in sync: {rounds.in_sync(self._cluster, where)}")

    def _empty(self, broker: int) -> None:
        self._note(f"  broker {broker}")
        self._cluster.kill(broker)
        self._clear(broker)
        time.sleep(self._away_s())
        self._cluster.restart(broker)

    def _clear(self, broker: int) -> None:
        """Replace a broker's disk by an empty disk that was formatted with ``kafka-storage format``."""
        directory: Path = self._campaign.log_dir(broker)
        for path in directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
