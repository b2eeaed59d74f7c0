"""Chaos tests of nine brokers with a thousand partitions: several brokers or the controller fail, and replicas are reassigned.

Stock clients write transactions to a few topics, as in `tests.chaos.several`, and an idempotent producer writes to all other
topics. At the end all replicas must be equal, each acknowledged record must exist once, all partitions must have their preferred
leaders, and memory and log lines must be within limits. The report has the duration of each start of all brokers. Run it with
``python -m tests.chaos --brokers 9 --partitions 1000 --kills 200 --seed 7``; all kinds of faults count as kills.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ottla.client.errors import ClientError
from ottla.client.kafka_client import KafkaClient
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.checker import Observation, Shown, check, outcomes
from ottla.simulation.history import History
from ottla.testing import cluster_handle
from ottla.testing.cluster_handle import CONTROLLER, Cluster
from tests.chaos import campaigns, observe, several
from tests.chaos.clients import TOPICS, Clients
from tests.chaos.director import ALL_PARTITIONS, PARTITIONS

MANY = "many"
FACTOR = 3
SESSION_MS = 15_000
SETTINGS = several.SETTINGS | {
    # Nine brokers and the clients share two cores, so heartbeats are late and need long timeouts.
    "broker.session.timeout.ms": SESSION_MS,
    "broker.heartbeat.interval.ms": 1_000,
    "replica.lag.time.max.ms": 20_000,
    "leader.imbalance.check.interval.seconds": 10,
}
FAULTS_A_ROUND = 50
TRANSACTION_MS = 20_000
"""Transaction timeout. With the shorter timeout of the other campaigns, all transactions would time out before their commit."""
SETTLE_S = TRANSACTION_MS / 1000 + 30.0
WORKERS = ("confluent-1", "aiokafka", "java")
"""Client processes. There are fewer than in campaigns of three brokers, because nine brokers leave less processor time to clients.
"""
FILLED_TOPICS = 10
RECORDS_PER_S = 150
DELIVERY_S = 600.0
"""Delivery timeout of the idempotent producer, in seconds. After a timeout librdkafka begins a new producer epoch and sends batches
again whose acknowledgement was lost, so that a partition may have them twice."""
IN_SYNC_S = 300.0
BALANCED_S = 120.0
PATIENCE_S = 300.0
"""Maximum duration of a start, a stop or a change of the cluster, in seconds."""
MOVED_AT_ONCE = 20
"""Number of partitions in one reassignment."""

BROKER_MIB, CONTROLLER_MIB = 250, 250
"""Limits of a node's resident memory at the end, in MiB."""
LINES_PER_FAULT = 2_500
"""Limit of the log lines of all nodes together, divided by the number of faults."""

SEVERAL = "several brokers"
BOTH = "controller and a broker"
DECK = (
    *(several.LEADER, several.TRANSACTIONS, several.GROUPS, several.CONTROL, SEVERAL, SEVERAL, BOTH, several.STARTING),
    *(several.PAUSED, several.STOPPED, several.MOVED, several.MOVED, several.REASSIGNED, several.REASSIGNED, several.ROLLED),
)


@dataclass(slots=True)
class ManyReport(several.ClusterReport):
    """A report that also has ``measures``, lines with measured durations, memory and log volume."""

    measures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([super(ManyReport, self).__str__(), *self.measures])


class Filler:
    """A thread with an idempotent producer that writes to many partitions. It records all acknowledgements."""

    def __init__(self, bootstrap: str, partitions: list[TopicPartition], seed: str) -> None:
        self._partitions = partitions
        self._rng = random.Random(seed)
        self._is_over = threading.Event()
        self.sent = 0
        self.acknowledged: dict[TopicPartition, list[str]] = defaultdict(list)
        self.failed: Counter[str] = Counter()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": int(DELIVERY_S * 1000),
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            for _ in range(RECORDS_PER_S // 10):
                topic, index = self._rng.choice(self._partitions)
                self.sent += 1
                with suppress(BufferError):
                    self._producer.produce(topic, f"{self.sent}", partition=index, on_delivery=self._delivered)
            self._producer.poll(0.1)
        self._producer.flush(DELIVERY_S)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed[error.name()] += 1
        else:
            self.acknowledged[message.topic(), message.partition()].append(message.value().decode())

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(DELIVERY_S + 30)

    def findings(self, shown: Shown) -> Iterable[str]:
        """Yield a finding for each partition in which acknowledged records are missing, or records appear twice.

        If a delivery has failed, records may appear twice (`DELIVERY_S`).
        """
        for where, values in self.acknowledged.items():
            counts = Counter(value for _, value in shown[where])
            lost = [value for value in values if not counts[value]]
            if lost:
                yield f"lost: {len(lost)} acknowledged records of {where}, the first is {lost[0]}"
        for where, records in shown.items():
            twice = [value for value, count in Counter(value for _, value in records).items() if count > 1]
            if twice and not self.failed:
                yield f"twice: {len(twice)} records of {where}, the first is {twice[0]}"
        if not any(self.acknowledged.values()):
            yield f"nothing was acknowledged of {self.sent} records"


class ManyRound(several.ClusterRound):
    """One cluster of many brokers with its clients and its faults."""

    def __init__(self, directory: Path, seed: str, report: ManyReport, *, brokers: int, partitions: int, java: bool) -> None:
        self._deck = DECK
        self._rng = random.Random(seed)
        self._seed = seed
        # The default timeouts of a `Cluster` object are for three brokers.
        cluster_handle.START_TIMEOUT_S = cluster_handle.STOP_TIMEOUT_S = cluster_handle.CHANGE_TIMEOUT_S = PATIENCE_S
        self._report = report
        self._measures = report.measures
        self._played = directory / "played.txt"
        data_dir = directory / "data"
        self.cluster = self._of_ottla = Cluster(brokers, data_dir=data_dir, settings=SETTINGS)
        self.campaign = campaigns.Campaign(
            self.cluster, SESSION_MS, lambda broker: data_dir / f"broker-{broker}", self.cluster.brokers
        )
        self._start("an empty directory")
        each = max(1, (partitions - len(ALL_PARTITIONS) - 3) // FILLED_TOPICS)
        self._filled = [(f"fill-{number}", index) for number in range(FILLED_TOPICS) for index in range(each)]
        self._away_s = SESSION_MS / 1000 + several.OVER_SESSION_S
        workers = {name: several.CLUSTER_WORKERS[name] for name in WORKERS if java or name != "java"}
        self.clients = Clients(directory, self.cluster.bootstrap, seed, workers, TRANSACTION_MS)
        self._actors = [actor.split(":")[1] for _, actors in workers.values() for actor in actors]
        self._kept: list[str] = []

    def _start(self, on: str) -> None:
        began_s = time.monotonic()
        self._of_ottla.start()
        self._measure(f"start on {on}: {time.monotonic() - began_s:.1f} s")

    def _note(self, what: str) -> None:
        super()._note(what)
        # Write the file after each event, because a run takes long and may be killed.
        self._played.write_text("\n".join(self._report.played))

    def _measure(self, line: str) -> None:
        self._measures.append(line)
        self._note(line)

    def run(self, kills: int, progress: Callable[[int], None]) -> None:
        began_s = time.monotonic()
        for topic, count in {**TOPICS, **Counter(topic for topic, _ in self._filled)}.items():
            self.cluster.create_topic(topic, count, replication_factor=FACTOR)
        self._measure(f"creation of {len(self._filled) + len(PARTITIONS):,} partitions: {time.monotonic() - began_s:.1f} s")
        self.clients.start()
        filler = Filler(self.cluster.bootstrap, self._filled, self._seed)
        time.sleep(5.0)
        self._measure_memory("before the faults")
        done, lines = self._report.done, self._of_ottla._parent.logged_lines
        cards: list[str] = []
        try:
            while self._report.done < done + kills:
                if not cards:
                    cards = list(self._deck)
                    self._rng.shuffle(cards)
                self._play(cards.pop())
                progress(self._report.done)
                time.sleep(self._rng.uniform(*several.BETWEEN_S))
            self.cluster.heal()
            time.sleep(2.0)
        finally:
            filler.end()
            history = self.clients.end()
        self._check_lines(self._of_ottla._parent.logged_lines - lines, self._report.done - done)
        self._judge_all(history, filler)

    def _play(self, card: str) -> None:
        if card not in (SEVERAL, BOTH):
            super()._play(card)
            return
        nodes = [CONTROLLER] if card == BOTH else []
        nodes += self._rng.sample(self.cluster.brokers, 1 if card == BOTH else self._rng.choice([2, 3]))
        self._report.kills[card] += len(nodes)
        self._note(card)
        self._kill(nodes)

    def _reassign(self, where: TopicPartition) -> None:
        """Reassign the partition and many other partitions to random brokers in one request."""
        moved = {where, *self._rng.sample([*self._filled, *ALL_PARTITIONS], MOVED_AT_ONCE)}
        topics: dict[str, list[ReassignablePartition]] = defaultdict(list)
        for topic, index in sorted(moved):
            replicas = self._rng.sample(self.cluster.brokers, FACTOR)
            topics[topic].append(ReassignablePartition(partition_index=index, replicas=replicas))
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=t, partitions=p) for t, p in topics.items()])
        self._note(f"  {len(moved)} partitions")

        def attempt() -> bool:
            with suppress(ClientError), KafkaClient(self.cluster.bootstrap, 60.0, client_id="chaos") as client:
                answer = client.brokers.ask(client.brokers.controller(), request)
                # An internal topic may not exist yet.
                fine = {Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION}
                return {answer.error_code, *(p.error_code for t in answer.responses for p in t.partitions)} <= fine
            return False

        self.cluster.wait_for(attempt, PATIENCE_S)

    def _metadata(self) -> list[tuple[TopicPartition, int, list[int], list[int]]]:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        topics = admin.list_topics(timeout=30).topics
        return [((t, i), p.leader, p.replicas, p.isrs) for t, topic in topics.items() for i, p in topic.partitions.items()]

    def _await(self, what: str, odd: Callable[[], list[TopicPartition]], timeout_s: float) -> None:
        """Wait until ``odd`` returns no partition, and record the duration. Partitions left at the timeout are a finding."""
        began_s = time.monotonic()
        left: list[TopicPartition] = []
        while time.monotonic() < began_s + timeout_s:
            with suppress(KafkaException, ClientError, TimeoutError):
                left = odd()
                if not left:
                    self._measure(f"{what}: {time.monotonic() - began_s:.1f} s")
                    return
            time.sleep(0.5)
        self._report.findings.append(f"{self._seed}: not {what} in {timeout_s:.0f} s: {len(left)} partitions, such as {left[:3]}")

    def _await_in_sync(self) -> None:
        self._await(
            "all in sync",
            lambda: [where for where, _, replicas, in_sync in self._metadata() if len(in_sync) < FACTOR or len(replicas) != FACTOR],
            IN_SYNC_S,
        )

    def _await_balanced(self) -> None:
        self._await(
            "all led by the preferred leaders",
            lambda: [where for where, leader, replicas, _ in self._metadata() if leader != replicas[0]],
            BALANCED_S,
        )

    def _measure_memory(self, when: str) -> dict[int, int]:
        """Return the resident memory of each node in MiB, and add it to the measures."""
        mib = {node: _resident_mib(self._of_ottla.pid(node)) for node in (CONTROLLER, *self.cluster.brokers)}
        of_brokers = [mib[broker] for broker in self.cluster.brokers]
        self._measure(f"memory {when}: controller {mib[CONTROLLER]} MiB, brokers {min(of_brokers)} to {max(of_brokers)} MiB")
        return mib

    def _check_lines(self, lines: int, faults: int) -> None:
        events = Counter(_event(line) for line in self.cluster.logs)
        most = ", ".join(f"{event} {count:,}" for event, count in events.most_common(4))
        self._measure(f"{lines:,} log lines for {faults} faults; of the newest {events.total():,}: {most}")
        if lines > faults * LINES_PER_FAULT:
            self._report.findings.append(f"{self._seed}: {lines:,} log lines for {faults} faults: {most}")

    def _judge_all(self, history: History, filler: Filler) -> None:
        cluster, report = self.cluster, self._report
        ends = observe.settled(cluster.bootstrap, ALL_PARTITIONS, SETTLE_S)
        self._await_in_sync()
        self._await_balanced()
        for node, mib in self._measure_memory("after the faults").items():
            if mib > (CONTROLLER_MIB if node == CONTROLLER else BROKER_MIB):
                report.findings.append(f"{self._seed}: node {node} has {mib} MiB")
        self._measure(f"{filler.sent:,} records into {len(self._filled):,} partitions, not delivered: {dict(filler.failed)}")
        filled: Shown = {}
        for name in sorted({topic for topic, _ in self._filled}):
            filled |= observe.shown(cluster.bootstrap, [where for where in self._filled if where[0] == name], committed=False)
        report.findings += [f"{self._seed}: {finding}" for finding in filler.findings(filled)]
        seen = self._observed(history, ends)
        began_s = time.monotonic()
        codes = [cluster.stop()]
        self._measure(f"stop of all: {time.monotonic() - began_s:.1f} s")
        self._start("the full directory")
        self._await_in_sync()
        codes.append(cluster.stop())
        if any(codes):
            report.findings.append(f"{self._seed}: the cluster ended with {codes}")
        self._compare(seen)
        seen.errors = observe.complaints(cluster.logs, disk_was_full=False)
        report.findings += [f"{self._seed}: {finding}" for finding in [*self.clients.findings, *check(history, seen)]]
        report.transactions += outcomes(history, seen)

    def _observed(self, history: History, ends: dict[TopicPartition, tuple[int, int]]) -> Observation:
        """Return all records, end offsets and committed offsets as stock clients read them."""
        bootstrap = self.cluster.bootstrap
        inputs = [where for where in PARTITIONS if where[0] == "in"]
        committed = observe.shown(bootstrap, PARTITIONS, committed=True)
        return Observation(
            committed=committed,
            uncommitted=observe.shown(bootstrap, PARTITIONS, committed=False),
            stored={},
            ends=ends,
            offsets={
                g: observe.committed_offsets(bootstrap, g, inputs) for g in sorted({a.group for a in history.attempts if a.group})
            },
            others={"kafka-python": observe.shown_to("kafka-python", bootstrap, sorted(TOPICS), committed)},
        )

    def _compare(self, seen: Observation) -> None:
        """Compare the replicas of all partitions, and add stored batches, open transactions and audit results to ``seen``."""
        directories = {broker: self.campaign.log_dir(broker) for broker in self.cluster.brokers}
        differences = observe.differences({broker: observe.identities(directory) for broker, directory in directories.items()})
        self._report.findings += [f"{self._seed}: {line}" for line in differences]
        for directory in directories.values():
            seen.stored |= {where: stored for where, stored in observe.stored(directory).items() if where in ALL_PARTITIONS}
            seen.unfinished += observe.unfinished(directory)
            seen.audit += observe.audit(directory)


def _resident_mib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    return 0


def _event(line: str) -> str:
    with suppress(ValueError):
        return str(json.loads(line).get("event"))
    return "other"


def run(
    faults: int,
    seed: str,
    *,
    brokers: int,
    partitions: int,
    java: bool,
    progress: Callable[[int], None] = lambda done: None,
    keep: Path | None = None,
) -> ManyReport:
    """Inject faults into one new cluster after the other until ``faults`` faults are done or a check fails.

    All directories are created in ``keep`` if it is set. Otherwise only directories with findings are kept.
    """
    report = ManyReport(seed, MANY)

    def one_round(directory: Path, of_round: str, _: several.ClusterReport) -> ManyRound:
        return ManyRound(directory, of_round, report, brokers=brokers, partitions=partitions, java=java)

    several.run_rounds(report, faults, FAULTS_A_ROUND, one_round, progress, keep)
    return report
