"""Chaos tests of ``ottla cluster grow``: stock clients write to one broker, then to the three brokers into which it grows.

The single broker is killed, paused and restarted, and finally stopped or killed. ``ottla cluster grow`` is killed at random disk
operations and run again. Then three brokers start, the first one under the same address, and fail as in `tests.chaos.several`.
In addition to the checks there, every batch of the single broker must be on all three brokers. Run it with
``python -m tests.chaos --grow --kills 200 --seed 7``; all kinds of faults count as kills.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ottla import Broker
from ottla.client.errors import ClientError
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.history import History
from ottla.storage.growth import is_growing
from ottla.storage.real_filesystem import RealFilesystem
from ottla.testing.cluster_handle import Cluster
from tests.chaos import campaigns, observe, several
from tests.chaos.clients import ROOT, TOPICS, Clients
from tests.chaos.director import ALL_PARTITIONS

GROWN = "grown"
BROKERS = 3
FAULTS_A_ROUND = 12
"""Number of faults per directory, before, during and after its growth. A directory grows only once."""
SETTINGS = {name: value for name, value in several.SETTINGS.items() if name != "min.insync.replicas"}
"""Settings without ``min.insync.replicas``, because the topics of a single broker have one in-sync replica."""
FACTORS = (1, 2, 3)
GROWTH_OPERATIONS = 70
"""``ottla cluster grow`` is killed before one of its first 70 disk operations. It needs about as many."""
LIFE_S = (0.3, 2.5)
"""Range of the time that a broker runs before the next fault, in seconds."""

ALONE = "one broker killed"
ALONE_PAUSED = "one broker paused"
ALONE_STOPPED = "one broker stopped"
GROWING = "growth killed"
DECK = (*(card for card in several.DECK if card != several.EMPTIED), several.CUT, several.REASSIGNED, several.ROLLED)
"""Faults of the grown cluster. No directory is deleted, because it may have the only in-sync replica of a partition."""
REPLICATED = [*ALL_PARTITIONS, *((TRANSACTION_TOPIC, index) for index in range(3))]

Identities = dict[TopicPartition, dict[int, tuple[int, int, int]]]


class GrowthRound(several.ClusterRound):
    """One directory with its clients, first on a single broker and then on the cluster of three brokers."""

    def __init__(self, directory: Path, seed: str, report: several.ClusterReport, *, java: bool) -> None:
        self._deck = DECK
        self._rng = random.Random(seed)
        self._seed = seed
        self._report = report
        data_dir = directory / "data"
        self.broker = Broker(data_dir=data_dir, settings={k: v for k, v in SETTINGS.items() if not k.startswith("broker.")})
        self.broker.start()
        self.cluster = Cluster(BROKERS, data_dir=data_dir, settings=SETTINGS)
        session_ms = int(SETTINGS["broker.session.timeout.ms"])
        self.campaign = campaigns.Campaign(
            self.cluster, session_ms, lambda broker: data_dir / f"broker-{broker}", self.cluster.brokers
        )
        self._away_s = session_ms / 1000 + several.OVER_SESSION_S
        workers = {name: worker for name, worker in several.CLUSTER_WORKERS.items() if java or name != "java"}
        self.clients = Clients(directory, self.broker.bootstrap, seed, workers)
        self._actors = [actor.split(":")[1] for _, actors in workers.values() for actor in actors]
        self._kept: list[str] = []
        self._before: Identities = {}

    def run(self, kills: int, progress: Callable[[int], None]) -> None:
        for topic, count in TOPICS.items():
            self.broker.create_topic(topic, count)
        self.clients.start()
        time.sleep(2.0)
        upto = self._report.done + kills
        try:
            for _ in range(self._rng.randrange(3)):
                self._alone()
            factor = self._grow()
            self._serve(factor)
            cards: list[str] = []
            while self._report.done < upto:
                progress(self._report.done)
                if not cards:
                    cards = list(self._deck)
                    self._rng.shuffle(cards)
                self._play(cards.pop())
                time.sleep(self._rng.uniform(*several.BETWEEN_S))
            progress(self._report.done)
            self.cluster.heal()
            time.sleep(2.0)
        finally:
            history = self.clients.end()
        self._judge(history)

    def close(self) -> None:
        self.broker.kill()
        self.cluster.close()

    def _alone(self) -> None:
        """Pause the single broker and resume it, or kill or stop it and start it again."""
        rng = self._rng
        time.sleep(rng.uniform(*LIFE_S))
        if rng.random() < 0.3:
            self._report.others[ALONE_PAUSED] += 1
            self._note(ALONE_PAUSED)
            self.broker.pause()
            time.sleep(self._away_s)
            self.broker.resume()
        else:
            self._end_of_the_broker()
            time.sleep(rng.uniform(*several.AWAY_S))
            self.broker.start()

    def _end_of_the_broker(self) -> None:
        if self._rng.random() < 0.6:
            self._report.kills[ALONE] += 1
            self._note(ALONE)
            self.broker.kill()
        else:
            self._report.others[ALONE_STOPPED] += 1
            self._note(ALONE_STOPPED)
            if (code := self.broker.stop()) != 0:
                self._report.findings.append(f"{self._seed}: the broker ended with {code} after SIGTERM")

    def _grow(self) -> int:
        """Stop or kill the broker and grow its directory. The command is killed several times, then runs to its end.

        Returns the replication factor.
        """
        rng, factor = self._rng, self._rng.choice(FACTORS)
        time.sleep(rng.uniform(*LIFE_S))
        self._end_of_the_broker()
        self._before = observe.identities(self.broker.data_dir)
        for _ in range(rng.randint(1, 4)):
            if not self._run_growth(rng.randrange(GROWTH_OPERATIONS), factor):
                return factor
            if not is_growing(RealFilesystem(), str(self.broker.data_dir)) and rng.random() < 0.5 and self._is_of_one_broker():
                # The command was killed before its first change, so the single broker can start again.
                self.broker.start()
                time.sleep(rng.uniform(*LIFE_S))
                self._end_of_the_broker()
                self._before = observe.identities(self.broker.data_dir)
        while self._run_growth(1 << 30, factor):
            pass
        return factor

    def _is_of_one_broker(self) -> bool:
        return (self.broker.data_dir / "meta.properties").exists()

    def _run_growth(self, kill_at: int, factor: int) -> bool:
        """Run ``ottla cluster grow`` once. Returns whether it was killed. Raises AssertionError if it fails."""
        command = [sys.executable, "-m", "tests.chaos.grower", str(kill_at), "--data-dir", str(self.broker.data_dir)]
        command += ["--brokers", str(BROKERS), "--replication-factor", str(factor)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        was_killed = done.returncode == -signal.SIGKILL
        if was_killed:
            self._report.kills[GROWING] += 1
            self._note(f"{GROWING} at {kill_at}")
        elif "has the data of a cluster" in done.stderr:
            # The previous run was killed after its last step, so the growth is complete.
            return False
        assert was_killed or done.returncode == 0, f"cluster grow ended with code {done.returncode}: {done.stderr}"
        return was_killed

    def _serve(self, factor: int) -> None:
        """Start the cluster, with broker 1 at the address of the single broker, and reassign all partitions to three replicas."""
        self._note(f"grown, with {factor} replicas")
        port = int(self.broker.bootstrap.rpartition(":")[2])
        (self.broker.data_dir / "ports.json").write_text(json.dumps({"broker-1": port}))
        self.cluster.start()
        if self.cluster.address(1) != self.broker.bootstrap:
            self._report.findings.append(f"{self._seed}: broker 1 listens at {self.cluster.address(1)}")
        if factor < BROKERS:
            time.sleep(self._rng.uniform(*LIFE_S))
            for where in REPLICATED:
                # An internal topic is created by the first client of its coordinator, so it may not exist yet.
                with suppress(ClientError, TimeoutError):
                    self.campaign.reassign(where, self._rng.sample(self.cluster.brokers, BROKERS))

    def _judge(self, history: History) -> None:
        super()._judge(history)
        for broker in self.cluster.brokers:
            after = observe.identities(self.campaign.log_dir(broker))
            for where, batches in self._before.items():
                if where[0] in TOPICS:
                    odd = sorted(at for at, batch in batches.items() if after.get(where, {}).get(at) != batch)
                    if odd:
                        lost = f"{len(odd)} batches of {where} that the one broker had, first {odd[0]}"
                        self._report.findings.append(f"{self._seed}: broker {broker} lacks {lost}")
        self._report.findings += [f"{self._seed}: {line}" for line in observe.complaints(self.broker.logs, disk_was_full=False)]


def run(
    faults: int, seed: str, *, java: bool, progress: Callable[[int], None] = lambda done: None, keep: Path | None = None
) -> several.ClusterReport:
    """Grow one new data directory after the other until ``faults`` faults are done or a check fails.

    All directories are created in ``keep`` if it is set. Otherwise only directories with findings are kept.
    """

    def one_round(directory: Path, of_round: str, report: several.ClusterReport) -> GrowthRound:
        return GrowthRound(directory, of_round, report, java=java)

    return several.run_rounds(several.ClusterReport(seed, GROWN), faults, FAULTS_A_ROUND, one_round, progress, keep)
