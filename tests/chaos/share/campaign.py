"""The chaos campaign of share groups: ``python -m tests.chaos --share --faults 60 --seed 7``.

Members with Kafka's own share consumer accept, release and reject records, and renew their locks, while brokers and members fail.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from ottla.broker.handlers.find_coordinator import SHARE_KEY_TYPE
from ottla.client.cluster import GROUP as GROUP_KEY
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.uuids import uuid_text
from ottla.testing.cluster_handle import Cluster
from tests.chaos import observe, rounds
from tests.chaos.rounds import FaultReport
from tests.chaos.several import SESSION_MS, SETTINGS
from tests.chaos.share import cards
from tests.chaos.share.cards import ALL, PARTITIONS, TOPIC
from tests.chaos.share.checker import check
from tests.chaos.share.history import ShareHistory, StartOffsets
from tests.chaos.share.members import Members, program

GROUP = "sharers"
GROUP_RESOURCE = 32
LOCK_MS = 2_000
DELIVERY_LIMIT = 5
SHARE_SETTINGS = {
    **SETTINGS,
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.share.session.timeout.ms": 3_000,
    "group.share.min.session.timeout.ms": 1_000,
    "group.share.record.lock.duration.ms": LOCK_MS,
    "group.share.delivery.count.limit": DELIVERY_LIMIT,
}
UNKNOWN_TO_CLIENTS = "Unexpected error code"
"""Log message of Kafka's share consumer for an error code that it does not expect from a broker."""
PACE_S = 0.02
POISON_EACH = 50
"""One record of this many is released at each delivery, until it reaches the delivery limit."""
OBSERVED_EACH_S = 0.2
ASK_TIMEOUT_S = 2.0
START_S = 90.0
FINISH_S = 300.0
"""Maximum time without progress at the end while unacknowledged records are left, in seconds."""


class Feed:
    """A thread that produces records until `stop`."""

    def __init__(self, bootstrap: str, history: ShareHistory) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "reconnect.backoff.max.ms": 300,
            "linger.ms": 20,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._history = history
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.failures: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def abandon(self) -> None:
        """Tell the thread to stop producing, without waiting for it."""
        self._is_over.set()

    def stop(self) -> None:
        """Stop producing and wait until all records are acknowledged."""
        self.abandon()
        self._thread.join()
        left = self._producer.flush(60)
        if left:
            self.failures.append(f"{left} records were not acknowledged")

    def _run(self) -> None:
        number = 0
        while not self._is_over.wait(PACE_S):
            value = f"{'poison' if number % POISON_EACH == 0 else 'value'}-{number}"
            self._history.sent.add(value)
            self._producer.produce(TOPIC, value.encode(), partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(f"a record was not produced: {error}")
        elif message.offset() is None:
            self._history.unplaced.add(message.value().decode())
        else:
            self._history.produced[message.partition(), message.offset()] = message.value().decode()


class Observer:
    """A thread that requests the group's start offsets until `stop`."""

    def __init__(self, bootstrap: str, history: ShareHistory) -> None:
        self._bootstrap = bootstrap
        self._history = history
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(OBSERVED_EACH_S):
            with suppress(OSError, ClientError):
                self.lags()

    def lags(self) -> dict[int, int]:
        """Request start offsets and lags of the group. Returns the known lags by partition. Raises OSError and `ClientError`."""
        brokers = BrokerConnections(self._bootstrap, timeout_s=ASK_TIMEOUT_S, client_id="observer")
        try:
            coordinator = brokers.coordinator(GROUP_KEY, GROUP)
            asked = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)
            asked_s = time.monotonic()
            (group,) = brokers.ask(coordinator, DescribeShareGroupOffsetsRequest(groups=[asked])).groups
        finally:
            brokers.close()
        known = [p for topic in group.topics for p in topic.partitions if p.error_code == Code.NONE and p.start_offset >= 0]
        offsets = {partition.partition_index: partition.start_offset for partition in known}
        self._history.start_offsets.append(StartOffsets(asked_s, time.monotonic(), offsets))
        return {partition.partition_index: partition.lag for partition in known}


class ShareRound:
    """One cluster with a producer, the members of a share group, and an observer of its start offsets."""

    deck = cards.DECK

    def __init__(self, directory: Path, seed: str, number: int, report: FaultReport) -> None:
        self.rng = random.Random(seed)
        self._report = report
        self._directory, self._seed = directory, seed
        self.data_dir = directory / "data"
        self.cluster = Cluster(3, data_dir=self.data_dir, settings=SHARE_SETTINGS)
        self._history = ShareHistory(DELIVERY_LIMIT, LOCK_MS / 1000)
        self._members: Members | None = None
        self._feed: Feed | None = None
        self._observer: Observer | None = None
        self._cards: cards.Cards | None = None

    def begin(self) -> None:
        cluster = self.cluster.start()
        cluster.create_topic(TOPIC, PARTITIONS, replication_factor=3)
        self._configure_group()
        self._members = Members(self._directory, cluster.bootstrap, GROUP, TOPIC, self._seed, LOCK_MS)
        self._cards = cards.Cards(cluster, self._members, self.rng, self._report.note, SESSION_MS / 1000, LOCK_MS / 1000)
        self._members.start()
        self._observer = Observer(cluster.bootstrap, self._history)
        self._make_coordinators()
        rounds.await_in_sync(cluster, ALL)
        self._cards.gather(cluster.brokers[0])
        self._feed = Feed(cluster.bootstrap, self._history)
        self._feed.start()
        self._observer.start()
        cluster.wait_for(lambda: len(self._history.produced) > 0, START_S)
        time.sleep(2.0)

    def _configure_group(self) -> None:
        configs = [AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")]
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=configs)
        brokers = BrokerConnections(self.cluster.bootstrap)
        answer = brokers.ask(brokers.anyone(), IncrementalAlterConfigsRequest(resources=[resource]))
        brokers.close()
        assert answer.responses[0].error_code == Code.NONE, answer.responses[0].error_message

    def _make_coordinators(self) -> None:
        """Create the internal topics of both coordinators before the first member starts, by looking up the coordinators."""
        brokers = BrokerConnections(self.cluster.bootstrap)
        keys = {GROUP_KEY: GROUP, SHARE_KEY_TYPE: f"{GROUP}:{uuid_text(bytes(16))}:0"}
        for kind, key in keys.items():
            brokers.until_final("looking for a coordinator", partial(brokers.coordinator_id, kind, key))
        brokers.close()

    def play(self, card: str) -> None:
        assert self._cards is not None
        begin_s = time.monotonic()
        self._cards.play(card)
        if card not in cards.OF_MEMBERS:
            self._history.disruptions.append((begin_s, time.monotonic()))

    def close(self) -> None:
        if self._feed is not None:
            self._feed.abandon()
        if self._observer is not None:
            self._observer.stop()
        if self._members is not None:
            self._members.kill_all()

    def end(self) -> list[str]:
        assert self._cards is not None and self._members is not None and self._feed is not None and self._observer is not None
        begin_s = time.monotonic()
        self.cluster.heal()
        rounds.await_in_sync(self.cluster, ALL)
        self._cards.gather(self.rng.choice(self.cluster.brokers))
        self._history.disruptions.append((begin_s, time.monotonic()))
        self._feed.stop()
        findings = [*self._feed.failures, *self._await_finished()]
        self._observer.stop()
        findings += self._members.end(self._history)
        rounds.await_in_sync(self.cluster, ALL)
        if (code := self.cluster.stop()) != 0:
            findings.append(f"the cluster ended with {code}")
        return [*findings, *self._judged()]

    def _await_finished(self) -> list[str]:
        """Wait until the lag of all partitions is 0. Returns a finding for each partition whose lag is unknown."""
        assert self._observer is not None
        deadline, lags = time.monotonic() + FINISH_S, dict[int, int]()
        while lags != dict.fromkeys(range(PARTITIONS), 0) and time.monotonic() < deadline:
            before = lags
            with suppress(OSError, ClientError):
                lags = self._observer.lags()
            if lags != before:
                deadline = time.monotonic() + FINISH_S
            time.sleep(0.2)
        self._history.lags = lags
        return [f"the lag of partition {index} is not known" for index in range(PARTITIONS) if index not in lags]

    def _judged(self) -> list[str]:
        history, directories = self._history, {b: self.data_dir / f"broker-{b}" for b in self.cluster.brokers}
        findings = check(history)
        findings += observe.differences({broker: observe.identities(directory) for broker, directory in directories.items()})
        for directory in directories.values():
            observe.stored(directory)
            findings += [f"audit: {line}" for line in observe.audit(directory)]
        findings += [f"broker's log: {line}" for line in observe.complaints(self.cluster.logs, disk_was_full=False)]
        findings += [f"member {trouble}" for trouble in history.troubles if UNKNOWN_TO_CLIENTS in trouble]
        report = self._report
        acknowledged = Counter(ack.kind.lower() for ack in history.acknowledgements if ack.is_confirmed)
        acknowledged["refused"] = sum(ack.error is not None for ack in history.acknowledgements)
        report.count("records", Counter(produced=len(history.produced) + len(history.unplaced)))
        report.count("acknowledgements", acknowledged)
        report.count("deliveries", Counter(f"count {delivery.number}" for delivery in history.deliveries))
        report.count("errors of members", Counter(trouble.partition(": ")[2][:110] for trouble in history.troubles))
        return list(dict.fromkeys(findings))


def run(faults: int, seed: str, *, progress: Callable[[int], None] = lambda done: None, keep: Path | None = None) -> FaultReport:
    """Run the campaign until ``faults`` faults are done or a check fails (`rounds.run`).

    Raises `tools.kafka.Unavailable` without the Java clients.
    """
    program()
    return rounds.run(faults, seed, ShareRound, progress=progress, keep=keep)
