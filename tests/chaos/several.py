"""Chaos tests of several brokers: stock clients write while leaders, coordinators and the controller are killed or paused.

All topics have three replicas and ``min.insync.replicas`` 2, so writes continue while one broker is down. At the end all brokers
are brought back and stopped. The history of the clients is compared with the visible records and with the files of each broker.
Run it with ``python -m tests.chaos --brokers 3 --kills 60 --seed 7``. With ``--under kafka`` or ``--with kafka`` some nodes run
Apache Kafka (`tests.chaos.campaigns`), and ``--kills`` is the number of faults of all kinds.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.client.errors import ClientError
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.checker import Observation, check, outcomes
from ottla.simulation.history import History
from ottla.testing.cluster_handle import CONTROLLER
from tests.chaos import campaigns, observe
from tests.chaos.clients import TOPICS, WORKERS, Clients
from tests.chaos.director import ALL_PARTITIONS, PARTITIONS, SETTLE_S

SESSION_MS = 1_500
SETTINGS: dict[str, str | int | bool] = {
    "broker.session.timeout.ms": SESSION_MS,
    "broker.heartbeat.interval.ms": 200,
    "replica.lag.time.max.ms": 2_000,
    "min.insync.replicas": 2,
    "log.segment.bytes": 60_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "transaction.state.log.num.partitions": 3,
    "offsets.topic.num.partitions": 3,
    "auto.create.topics.enable": False,
}
AWAY_S = (0.1, 2.5)
"""Range of the time until a killed process is restarted, in seconds. It includes times below and above the session timeout."""
BETWEEN_S = (0.3, 1.5)
OVER_SESSION_S = 1.0
"""Time by which a pause exceeds the session timeout, in seconds."""
IN_SYNC_S = 40.0
KILLS_A_ROUND = 30

LEADER = "leader"
TRANSACTIONS = "transaction coordinator"
GROUPS = "group coordinator"
CONTROL = "controller"
TWO = "two brokers"
STARTING = "while starting"
PAUSED = "paused"
STOPPED = "stopped"
MOVED = "leader moved"
EMPTIED = "directory deleted"
TOPIC = "topic created and deleted"
CUT = "network cut"
REASSIGNED = "replicas reassigned"
ROLLED = "all restarted in turn"
KAFKA = "broker of Apache Kafka"
KILLING = {LEADER: 1, TRANSACTIONS: 1, GROUPS: 1, CONTROL: 1, TWO: 2, STARTING: 2, EMPTIED: 1, KAFKA: 1}
"""Number of kills that each fault causes."""
DECK = (
    *(LEADER, TRANSACTIONS, GROUPS, CONTROL, TWO, STARTING, LEADER, TRANSACTIONS, EMPTIED, GROUPS),
    *(PAUSED, PAUSED, STOPPED, MOVED, MOVED, TOPIC),
)
MIXED_DECK = (*DECK, CUT, CUT, REASSIGNED, REASSIGNED, REASSIGNED, ROLLED)
WITH_KAFKA_DECK = (*MIXED_DECK, KAFKA, KAFKA, KAFKA)
CLUSTER_WORKERS = {
    name: (client, tuple(actor for actor in actors if client != "confluent-kafka" or not actor.startswith("pipe:")))
    for name, (client, actors) in WORKERS.items()
}
"""The client processes without consume-transform-produce actors of librdkafka.

librdkafka's send_offsets_to_transaction ignores its timeout and never returns if the group coordinator is missing from the
metadata (librdkafka's issues 5456 and 5511).
"""
KIP_848_PIPES = ("pipe:pipe-next-1:consumer", "pipe:pipe-next-2:consumer")
"""Two consume-transform-produce actors of the Java client in a KIP-848 consumer group. All other such actors use classic groups."""


@dataclass(slots=True)
class ClusterReport:
    """Faults and findings of a chaos run."""

    seed: str
    campaign: str = campaigns.OTTLA
    kills: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    played: list[str] = field(default_factory=list)
    """Lines with time, fault and affected nodes. Times are in the format of the brokers' logs."""
    findings: list[str] = field(default_factory=list)

    @property
    def killed(self) -> int:
        return self.kills.total()

    @property
    def done(self) -> int:
        """Number of faults that count towards the end of the run: kills, and in mixed clusters all faults."""
        return self.killed + (self.others.total() if self.campaign != campaigns.OTTLA else 0)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.killed} kills: {_counted(self.kills)}"]
        lines.append(f"also: {_counted(self.others)}")
        lines.append(f"{self.transactions.total():,} transactions: {_counted(self.transactions)}")
        return "\n".join([*lines, *(f"FOUND {finding}" for finding in self.findings)])


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))


class ClusterRound:
    """One cluster with its clients and its faults."""

    def __init__(self, directory: Path, seed: str, report: ClusterReport, *, brokers: int, java: bool) -> None:
        self._deck = {campaigns.OTTLA: DECK, campaigns.UNDER_KAFKA: MIXED_DECK, campaigns.WITH_KAFKA: WITH_KAFKA_DECK}[
            report.campaign
        ]
        self._rng = random.Random(seed)
        self._seed = seed
        self._report = report
        self.campaign = campaigns.start(report.campaign, directory, SETTINGS, brokers)
        self.cluster = self.campaign.cluster
        self._away_s = self.campaign.session_ms / 1000 + OVER_SESSION_S
        workers = {name: worker for name, worker in CLUSTER_WORKERS.items() if java or name != "java"}
        if java and report.campaign != campaigns.OTTLA:
            workers["java"] = ("java", (*workers["java"][1], *KIP_848_PIPES))
        self.clients = Clients(directory, self.cluster.bootstrap, seed, workers)
        self._actors = [actor.split(":")[1] for _, actors in workers.values() for actor in actors]
        self._kept: list[str] = []

    def run(self, kills: int, progress: Callable[[int], None]) -> None:
        for topic, count in TOPICS.items():
            self.cluster.create_topic(topic, count, replication_factor=3)
        self.clients.start()
        time.sleep(2.0)
        upto = self._report.done + kills
        cards: list[str] = []
        try:
            while self._report.done < upto:
                if not cards:
                    cards = list(self._deck)
                    self._rng.shuffle(cards)
                self._play(cards.pop())
                progress(self._report.done)
                time.sleep(self._rng.uniform(*BETWEEN_S))
            self.cluster.heal()
            time.sleep(2.0)
        finally:
            history = self.clients.end()
        self._judge(history)

    def close(self) -> None:
        self.cluster.close()

    def _play(self, card: str) -> None:
        cluster, rng, report = self.cluster, self._rng, self._report
        if card in KILLING:
            report.kills[card] += KILLING[card]
        else:
            report.others[card] += 1
        self._note(card)
        if card == CONTROL:
            self._kill([CONTROLLER])
        elif card == TWO:
            self._kill(rng.sample(cluster.brokers, 2))
        elif card == STARTING:
            victim = self._victim(LEADER)
            self._note(f"  broker {victim}")
            self.campaign.kill_while_starting(victim, rng)
        elif card == EMPTIED:
            self._empty(self._victim(LEADER))
        elif card in (PAUSED, STOPPED):
            victim = self._victim(rng.choice([LEADER, TRANSACTIONS, GROUPS]))
            self._note(f"  broker {victim}")
            if card == PAUSED:
                cluster.pause(victim)
                time.sleep(self._away_s)
                cluster.resume(victim)
            else:
                cluster.restart(victim)
        elif card == MOVED:
            self._move()
        elif card == CUT:
            self._cut(rng.choice(self.campaign.of_ottla))
        elif card == REASSIGNED:
            self._reassign(rng.choice(ALL_PARTITIONS))
        elif card == ROLLED:
            for broker in rng.sample(cluster.brokers, len(cluster.brokers)):
                cluster.restart(broker)
        elif card == KAFKA:
            self._kill(self.campaign.of_kafka)
        elif card == TOPIC:
            self._topic_while_one_is_away(rng.choice(cluster.brokers))
        else:
            self._kill([self._victim(card)])

    def _victim(self, of: str) -> int:
        """Return a broker with the role ``of``, or a random broker if no broker has the role now."""
        cluster, rng = self.cluster, self._rng
        name = rng.choice(self._actors)
        with suppress(ClientError, TimeoutError):
            if of == LEADER:
                return cluster.leader(*rng.choice(PARTITIONS)) or rng.choice(cluster.brokers)
            if of == TRANSACTIONS:
                return cluster.coordinator(transactional_id=name)
            return cluster.coordinator(group=f"g-{name.rpartition('-')[0]}")
        return rng.choice(cluster.brokers)

    def _note(self, what: str) -> None:
        self._report.played.append(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {what}")

    def _kill(self, nodes: list[int]) -> None:
        self._note(f"  killed {nodes}")
        for node in nodes:
            self.cluster.kill(node)
        time.sleep(self._rng.uniform(*AWAY_S))
        self._note("  restarted")
        for node in nodes:
            self.cluster.restart(node)
        self._note("  there again")

    def _cut(self, broker: int) -> None:
        """Disconnect a broker from the other brokers for a while, so that its followers leave the in-sync replicas."""
        self._note(f"  broker {broker}")
        self.cluster.partition(broker)
        time.sleep(self._rng.uniform(0.5, 1.5) * self._away_s)
        self.cluster.heal()

    def _reassign(self, where: TopicPartition) -> None:
        """Remove one replica of a partition, and add it again later."""
        replicas = self._rng.sample(self.cluster.brokers, 3)
        self._note(f"  {where} to {replicas[:2]} and {replicas}")
        self.campaign.reassign(where, replicas[:2])
        time.sleep(self._rng.uniform(0.0, 2.0))

        def is_added_again() -> bool:
            # A controller that is still removing the replica does not keep it (ReplicationControlManager), so the request is
            # repeated.
            self.campaign.reassign(where, replicas)
            return len(self.cluster.in_sync(*where)) == 3

        self.cluster.wait_for(is_added_again, IN_SYNC_S)
        self._await_in_sync()

    def _empty(self, broker: int) -> None:
        """Replace a broker's disk: wait until all replicas are in sync, kill the broker, and restart it with an empty directory."""
        self._await_in_sync()
        self._note(f"  broker {broker}")
        self.cluster.kill(broker)
        directory = self.campaign.log_dir(broker)
        for path in directory.iterdir():
            # Keep meta.properties: kafka-storage format writes this file to a new disk.
            if path.is_dir():
                shutil.rmtree(path)
        time.sleep(self._away_s)
        self.cluster.restart(broker)
        self._await_in_sync()

    def _move(self) -> None:
        topic, index = self._rng.choice(PARTITIONS)
        with suppress(ClientError, TimeoutError):
            others = [n for n in self.cluster.in_sync(topic, index) if n != self.cluster.leader(topic, index)]
            if others:
                self.cluster.move_leader(topic, index, self._rng.choice(others))

    def _topic_while_one_is_away(self, broker: int) -> None:
        """Create a topic and delete another topic while a broker with replicas of both is down."""
        cluster, number = self.cluster, len(self._kept) + 1
        cluster.create_topic(f"gone-{number}", 3, {"min.insync.replicas": "1"}, replication_factor=3)
        cluster.kill(broker)
        time.sleep(self._away_s)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for future in admin.delete_topics([f"gone-{number}"]).values():
            future.result(10)
        if self._kept:
            for future in admin.create_partitions([NewPartitions(self._kept[-1], 5)]).values():
                future.result(10)
        self._kept.append(f"kept-{number}")
        cluster.create_topic(self._kept[-1], 3, replication_factor=2)
        cluster.restart(broker)
        cluster.wait_for(
            lambda: not [there for b in cluster.brokers for there in self.campaign.log_dir(b).glob(f"gone-{number}-?")], IN_SYNC_S
        )

    def _await_in_sync(self) -> None:
        cluster = self.cluster
        cluster.wait_for(lambda: all(len(cluster.in_sync(*where)) == 3 for where in ALL_PARTITIONS), IN_SYNC_S)

    def _judge(self, history: History) -> None:
        cluster = self.cluster
        ends = observe.settled(cluster.bootstrap, ALL_PARTITIONS, SETTLE_S)
        self._await_in_sync()
        groups = sorted({a.group for a in history.attempts if a.group})
        inputs = [where for where in PARTITIONS if where[0] == "in"]
        committed = observe.shown(cluster.bootstrap, PARTITIONS, committed=True)
        seen = Observation(
            committed=committed,
            uncommitted=observe.shown(cluster.bootstrap, PARTITIONS, committed=False),
            stored={},
            ends=ends,
            offsets={group: observe.committed_offsets(cluster.bootstrap, group, inputs) for group in groups},
            others={"kafka-python": observe.shown_to("kafka-python", cluster.bootstrap, sorted(TOPICS), committed)},
        )
        code = cluster.stop()
        findings = [*self.clients.findings, *([f"the cluster ended with {code}"] if code else [])]
        directories = {broker: self.campaign.log_dir(broker) for broker in cluster.brokers}
        stored = {broker: observe.stored(directory) for broker, directory in directories.items()}
        findings += observe.differences({broker: observe.identities(directory) for broker, directory in directories.items()})
        seen.stored = stored[1]
        for broker, batches in stored.items():
            other = [where for where in ALL_PARTITIONS if batches.get(where) != stored[1].get(where)]
            findings += [f"broker {broker} stores {where} other than broker 1" for where in other]
            seen.unfinished += observe.unfinished(directories[broker])
            seen.audit += observe.audit(directories[broker])
        seen.errors = observe.complaints(cluster.logs, disk_was_full=False)
        seen.errors += [line for line in cluster.logs if '"unexpected_errors": ' in line and '"unexpected_errors": 0' not in line]
        report = self._report
        report.findings += [f"{self._seed}: {finding}" for finding in [*findings, *check(history, seen)]]
        report.transactions += outcomes(history, seen)


def run(
    kills: int,
    seed: str,
    *,
    brokers: int,
    java: bool,
    campaign: str = campaigns.OTTLA,
    progress: Callable[[int], None] = lambda done: None,
    keep: Path | None = None,
) -> ClusterReport:
    """Inject faults into one new cluster after the other until ``kills`` kills are done or a check fails.

    In mixed clusters, ``kills`` is the number of faults of all kinds.

    All directories are created in ``keep`` if it is set. Otherwise only directories with findings are kept.
    """

    def one_round(directory: Path, of_round: str, report: ClusterReport) -> ClusterRound:
        return ClusterRound(directory, of_round, report, brokers=brokers, java=java)

    return run_rounds(ClusterReport(seed, campaign), kills, KILLS_A_ROUND, one_round, progress, keep)


def run_rounds(
    report: ClusterReport,
    kills: int,
    kills_a_round: int,
    one_round: Callable[[Path, str, ClusterReport], ClusterRound],
    progress: Callable[[int], None],
    keep: Path | None,
) -> ClusterReport:
    """Test one new cluster after the other until ``kills`` kills are done or a check fails.

    ``one_round`` creates a cluster with its clients in a new directory.
    """
    number = 0
    while report.done < kills and not report.findings:
        number += 1
        directory = Path(tempfile.mkdtemp(prefix=f"ottla-chaos-{number}-", dir=keep))
        one = one_round(directory, f"{report.seed}/{number}", report)
        try:
            one.run(min(kills_a_round, kills - report.done), progress)
        except Exception:
            report.findings.append(f"{report.seed}/{number}: {traceback.format_exc()}")
        finally:
            (directory / "logs.txt").write_text("\n".join(one.cluster.logs))
            (directory / "played.txt").write_text("\n".join(report.played))
            one.close()
        if report.findings:
            report.findings.append(f"the directory of this round is {directory}")
        elif keep is None:
            shutil.rmtree(directory)
    return report
