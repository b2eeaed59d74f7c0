"""The chaos campaign of failing last in-sync replicas: ``python -m tests.chaos --unclean on|off --faults 60 --seed 7``.

Stock clients write transactions to topics with ``min.insync.replicas`` 1 and 2. With ``off``, no batch that was acknowledged or
visible below a high watermark may be lost. Every second cluster syncs before responses, and its brokers also lose power. With
``on``, unclean elections are enabled for topics, or in every second cluster by default. Each lost batch must then be explained by
an unclean election (`tests.chaos.unclean.checker`).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.checker import Observation, outcomes
from ottla.simulation.history import History
from ottla.testing.cluster_handle import Cluster
from tests.chaos import observe, rounds
from tests.chaos.campaigns import Campaign
from tests.chaos.clients import TOPICS, Clients
from tests.chaos.director import ALL_PARTITIONS, PARTITIONS, SETTLE_S
from tests.chaos.rounds import FaultReport
from tests.chaos.several import CLUSTER_WORKERS, SESSION_MS, SETTINGS
from tests.chaos.unclean import cards, checker
from tests.chaos.unclean.elections import UNCLEAN, Election, counted, logged_elections
from tests.chaos.unclean.going_on import go_on
from tests.chaos.unclean.power import SYNCED_VARIABLE, SyncedLengths
from tests.chaos.unclean.witness import Identity, Sightings, Witness

ON, OFF = "on", "off"
MIN_IN_SYNC = {"in": 2, "out": 1, "a": 1, "b": 2}
BROKERS = 3
ALLOWED = "unclean.leader.election.enable"
WITNESSED = [*ALL_PARTITIONS, *((TRANSACTION_TOPIC, index) for index in range(3))]
WITHOUT = "confluent-2"
"""Client process that is not started, because the thread `Witness` needs its processor time."""


class NotingCluster(Cluster):
    """A cluster whose brokers record the synced lengths of their log files."""

    _module = "tests.chaos.unclean.served"
    _python_options = ()


class UncleanRound:
    """One cluster with its clients and a `Witness` that reads all partitions."""

    def __init__(self, directory: Path, seed: str, number: int, report: FaultReport, *, mode: str, java: bool) -> None:
        self.rng = random.Random(seed)
        self._report = report
        self._mode = mode
        self._is_server_setting = mode == ON and number % 2 == 0
        is_power = mode == OFF and number % 2 == 0
        self.deck = (*cards.DECK, *(cards.LOSSY if mode == ON else ()), *(cards.POWER_CUTS if is_power else ()))
        synced = directory / "synced"
        synced.mkdir()
        os.environ[SYNCED_VARIABLE] = str(synced)
        settings = {
            **SETTINGS,
            "ottla.durability": "power" if is_power else "process",
            **({ALLOWED: True} if self._is_server_setting else {}),
        }
        self.data_dir = directory / "data"
        self.cluster = NotingCluster(BROKERS, data_dir=self.data_dir, settings=settings)
        campaign = Campaign(self.cluster, SESSION_MS, self._log_dir, self.cluster.brokers)
        lengths = SyncedLengths(synced)
        self._cards = cards.Cards(campaign, self.rng, report.note, PARTITIONS, ALL_PARTITIONS, lengths)
        self._workers = {n: worker for n, worker in CLUSTER_WORKERS.items() if n != WITHOUT and (java or n != "java")}
        self._directory, self._seed = directory, seed
        self._clients: Clients | None = None
        self._witness: Witness | None = None

    def _log_dir(self, broker: int) -> Path:
        return self.data_dir / f"broker-{broker}"

    def begin(self) -> None:
        self.cluster.start()
        for topic, count in TOPICS.items():
            configs = {"min.insync.replicas": str(MIN_IN_SYNC[topic])}
            if self._mode == ON and not self._is_server_setting:
                configs[ALLOWED] = "true"
            self.cluster.create_topic(topic, count, configs, replication_factor=BROKERS)
        self._clients = Clients(self._directory, self.cluster.bootstrap, self._seed, self._workers)
        self._clients.start()
        self._witness = Witness(self.cluster.bootstrap, WITNESSED)
        self._witness.start()
        time.sleep(2.0)

    def play(self, card: str) -> None:
        self._cards.play(card)

    def close(self) -> None:
        if self._witness is not None:
            self._witness.stop()
        if self._clients is not None:
            self._clients.end()

    def end(self) -> list[str]:
        assert self._clients is not None and self._witness is not None
        self.cluster.heal()
        rounds.await_in_sync(self.cluster, ALL_PARTITIONS)
        time.sleep(2.0)
        history = self._clients.end()
        findings, self._clients = self._clients.findings, None
        actors = [actor.split(":")[:2] for _, actors in self._workers.values() for actor in actors]
        ids = [name for role, name in actors if role in ("feed", "plain", "pipe")]
        findings += go_on(self.cluster.bootstrap, ids, PARTITIONS, history)
        ends = observe.settled(self.cluster.bootstrap, ALL_PARTITIONS, SETTLE_S)
        rounds.await_in_sync(self.cluster, ALL_PARTITIONS)
        seen = self._observed(history, ends)
        sightings = self._witness.stop()
        if (code := self.cluster.stop()) != 0:
            findings.append(f"the cluster ended with {code}")
        return [*findings, *self._judged(history, seen, sightings)]

    def _observed(self, history: History, ends: dict[TopicPartition, tuple[int, int]]) -> Observation:
        bootstrap = self.cluster.bootstrap
        # If an unclean election has truncated a group's offsets, pending offsets may stay pending, and a client waits forever.
        cut = {election.where for election in logged_elections(self.data_dir / "controller") if election.kind == UNCLEAN}
        groups = sorted({a.group for a in history.attempts if a.group and offsets_partition(a.group) not in cut})
        inputs = [where for where in PARTITIONS if where[0] == "in"]
        committed = observe.shown(bootstrap, PARTITIONS, committed=True)
        return Observation(
            committed=committed,
            uncommitted=observe.shown(bootstrap, PARTITIONS, committed=False),
            stored={},
            ends=ends,
            offsets={group: observe.committed_offsets(bootstrap, group, inputs) for group in groups},
            others={"kafka-python": observe.shown_to("kafka-python", bootstrap, sorted(TOPICS), committed)},
        )

    def _judged(self, history: History, seen: Observation, sightings: Sightings) -> list[str]:
        """Compare what was read during the run with the files of the stopped brokers. Returns the findings."""
        found = logged_elections(self.data_dir / "controller")
        affected = {election.where for election in found if election.kind == UNCLEAN}
        identities = {broker: observe.identities(self._log_dir(broker)) for broker in self.cluster.brokers}
        findings = observe.differences(identities)
        logs = {where: {at: Identity(*batch) for at, batch in log.items()} for where, log in identities[1].items()}
        seen.stored = observe.stored(self._log_dir(1))
        for broker in self.cluster.brokers:
            observe.stored(self._log_dir(broker))
            seen.unfinished += observe.unfinished(self._log_dir(broker))
            seen.audit += _without(observe.audit(self._log_dir(broker)), affected)
        seen.errors = [line for line in observe.complaints(self.cluster.logs, disk_was_full=False) if not _is_torn(line, affected)]
        if self._mode == OFF and affected:
            findings.append(f"unclean elections, which are disabled: {sorted(affected)}")
        findings += checker.check(history, seen, sightings, logs, found, offsets_partition)
        self._count(history, seen, sightings, found, logs)
        return findings

    def _count(
        self,
        history: History,
        seen: Observation,
        sightings: Sightings,
        found: list[Election],
        logs: dict[TopicPartition, checker.Log],
    ) -> None:
        report = self._report
        report.count("transactions", outcomes(history, seen))
        report.count("elections", counted(found))
        report.count("batches seen", checker.fates(sightings, logs))
        report.count("bytes lost in power cuts", self._cards.lost_bytes)


def offsets_partition(group: str) -> TopicPartition:
    return OFFSETS_TOPIC, partition_for(group, 3)


def _without(lines: list[str], affected: set[TopicPartition]) -> list[str]:
    """Filter the output of an audit after unclean elections.

    Returns only partly lost transactions of partitions without an unclean election, or all lines if there was no unclean election.
    """
    if not affected:
        return lines
    return [line for line in lines if ": a transaction of " in line and not _names(line, affected)]


def _is_torn(line: str, affected: set[TopicPartition]) -> bool:
    return bool(affected) and any(event in line for event in observe.TORN_EVENTS)


def _names(line: str, partitions: set[TopicPartition]) -> bool:
    return any(f"{topic}-{index}:" in line for topic, index in partitions)


def run(
    mode: str,
    faults: int,
    seed: str,
    *,
    java: bool,
    progress: Callable[[int], None] = lambda done: None,
    keep: Path | None = None,
) -> FaultReport:
    """Run the campaign until ``faults`` faults are done or a check fails (`rounds.run`)."""

    def new_round(directory: Path, round_seed: str, number: int, report: FaultReport) -> UncleanRound:
        return UncleanRound(directory, round_seed, number, report, mode=mode, java=java)

    return rounds.run(faults, seed, new_round, progress=progress, keep=keep)
