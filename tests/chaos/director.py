"""Chaos tests of one broker: stock clients write while the broker is killed, paused, terminated, or gets a full disk.

A run uses consecutive new data directories, each with new clients, and checks the results of each. Each start of the broker gets a
plan of faults (`tests.chaos.plan`), most of which are triggered while a transaction ends. Run it with ``python -m tests.chaos
--kills 2000 --seed 7``.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ottla import Broker
from ottla.simulation.checker import Observation, check, outcomes
from ottla.simulation.history import History
from ottla.testing.handle import BrokerFailed
from tests.chaos import observe, plan
from tests.chaos.clients import TOPICS, WORKERS, Clients
from tests.chaos.points import FULL, KILL, PAUSE, TERM, Fault, Hit, encode, hits_in
from tests.chaos.worker import TIMEOUT_MS
from tools import kafka

SETTINGS = {
    "log.segment.bytes": 60_000,
    "log.flush.offset.checkpoint.interval.ms": 300,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "transaction.state.log.num.partitions": 3,
    "offsets.topic.num.partitions": 3,
    "auto.create.topics.enable": False,
}
COMPACTION = {
    "transaction.state.log.segment.bytes": 15_000,
    "offsets.topic.segment.bytes": 15_000,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.cleaner.backoff.ms": 100,
}
"""Settings with which the coordinators' logs are compacted all the time.

Without compaction, the final audit has every Prepare record and can check every transaction.
"""
LIFE_S = 4.0
"""Time after which a broker is killed from outside if its planned faults were not triggered, in seconds."""
MOMENTS_S = (0.05, 1.5)
"""Range of the time after which a broker without a planned fault is killed, in seconds."""
PAUSE_S = TIMEOUT_MS / 1000 + 1.5
"""Duration of a pause, in seconds. It exceeds the transaction timeout and the request timeout."""
SETTLE_S = TIMEOUT_MS / 1000 + 15.0
KILLS_A_ROUND = 30
DURABILITY = ("power", "process")
TRANSACTION_VERSIONS = (2, 2, 1)
"""Values of ``transaction.version``, one per data directory in rotation."""
PARTITIONS = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
ALL_PARTITIONS = PARTITIONS + [("__consumer_offsets", index) for index in range(3)]
READERS = ("kafka-python", "aiokafka", "java")
"""Client libraries that read all topics at the end in addition to confluent-kafka, one per data directory in rotation."""


class ChaosBroker(Broker):
    """A `Broker` object for a process whose file operations trigger faults (`tests.chaos.broker`)."""

    _module = "tests.chaos.broker"
    _python_options = ()
    # The clients use most of the processor time of a small machine, so a start may take long.
    _start_timeout_s = 120.0


@dataclass(slots=True)
class Report:
    """Faults and findings of a run. ``kills`` counts kills by the write that triggered them; other kills are "from outside"."""

    seed: str
    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    inside_commit: int = 0
    inside_abort: int = 0
    between_markers: int = 0
    in_recovery: int = 0
    others: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    fenced: int = 0
    findings: list[str] = field(default_factory=list)
    troubles: Counter[str] = field(default_factory=Counter)

    @property
    def killed(self) -> int:
        return self.kills.total()

    def triggered(self, hit: Hit) -> None:
        if hit.do != KILL:
            self.others[hit.do] += 1
            return
        self.kills[hit.kind, hit.side] += 1
        if hit.is_inside:
            self.inside_commit += hit.commit is True
            self.inside_abort += hit.commit is False
            self.between_markers += 0 < hit.written < hit.pending


class Round:
    """One data directory with its clients, and the consecutive broker processes on it."""

    def __init__(self, directory: Path, seed: str, report: Report, *, java: bool, number: int) -> None:
        self._rng = random.Random(seed)
        self._seed = seed
        self._report = report
        self._reader = [name for name in READERS if java or name != "java"][number % (3 if java else 2)]
        self._hits_path = directory / "hits"
        self._hits_seen = 0
        self._complaints: list[str] = []
        os.environ["CHAOS_HITS"] = str(self._hits_path)
        self.broker = ChaosBroker(
            data_dir=directory / "data",
            settings=SETTINGS
            | {"ottla.durability": DURABILITY[number % len(DURABILITY)]}
            | (COMPACTION if number % 2 == 0 else {}),
            features={"transaction.version": TRANSACTION_VERSIONS[number % len(TRANSACTION_VERSIONS)]},
        )
        self._start([])
        workers = {name: worker for name, worker in WORKERS.items() if java or name != "java"}
        self.clients = Clients(directory, self.broker.bootstrap, seed, workers)

    def run(self, kills: int, progress: Callable[[int], None]) -> None:
        """Trigger faults until the broker was killed ``kills`` more times, then check the history. Adds findings to the report.

        Raises `BrokerFailed` if a broker does not start.
        """
        self._create_topics()
        self.clients.start()
        time.sleep(1.0)
        self._end(0)
        upto = self._report.killed + kills
        cards = plan.deck(kills, self._rng)
        try:
            while self._report.killed < upto or cards:
                sort = cards.pop() if cards else plan.ORDINARY
                if sort == plan.CLIENT_KILLED:
                    self.clients.kill_one(self._rng)
                    self._report.others[sort] += 1
                elif sort == plan.ZOMBIE:
                    self.clients.stop_one(self._rng)
                    self._report.others[sort] += 1
                elif not self._live(sort) and sort != plan.ORDINARY:
                    # The fault was not triggered, so it is planned again.
                    cards.insert(0, sort)
                self.clients.wake_zombies()
                progress(self._report.killed)
            self._start([])
            time.sleep(1.0)
        finally:
            history = self.clients.end()
        self._judge(history)

    def _create_topics(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]).values():
            future.result(10)

    def _live(self, sort: str) -> bool:
        """Start the broker with planned faults and run it to its end. Returns whether a fault was triggered."""
        rng, report = self._rng, self._report
        if sort == PAUSE:
            faults = plan.pausing(rng)
        elif sort == FULL:
            faults = plan.filling(rng)
        elif sort == TERM:
            faults = plan.terminating(rng)
        else:
            # If fewer than 40 % of the kills so far were inside a commit, plan the next kill inside a commit.
            faults = plan.killing(rng, inside_a_commit=5 * report.inside_commit < 2 * report.killed)
        before = self._hits_seen
        try:
            self._start(faults)
        except BrokerFailed:
            if len(hits_in(self._hits_path)) == before:
                raise
            report.in_recovery += 1
        else:
            self._wait(LIFE_S if faults else rng.uniform(*MOMENTS_S), faults)
        self._end(1)
        return self._hits_seen > before

    def _start(self, faults: list[Fault]) -> None:
        os.environ["CHAOS_PLAN"] = encode(faults)
        self._log_begin = len(self.broker.logs)
        self.broker.start()

    def _wait(self, seconds: float, faults: list[Fault]) -> None:
        """Wait until the broker is dead or the time is over. Handles triggered pauses and full disks in the meantime."""
        deadline = time.monotonic() + seconds
        handled = self._hits_seen
        while self.broker.is_running and time.monotonic() < deadline:
            time.sleep(0.01)
            for hit in hits_in(self._hits_path)[handled:]:
                handled += 1
                if hit.do == PAUSE and self.broker.pid is not None:
                    time.sleep(PAUSE_S)
                    os.kill(self.broker.pid, signal.SIGCONT)
                    deadline = time.monotonic() + seconds
                elif hit.do == FULL:
                    self._starve(faults[0])
                    return

    def _starve(self, fault: Fault) -> None:
        """Handle a full disk: await the planned kill, terminate the broker, or check that it recovers when space is free."""
        dice = self._rng.random()
        if dice < 0.2:
            time.sleep(self._rng.random() * fault.for_ms / 1000)
            return
        if dice > 0.4:
            time.sleep(fault.for_ms / 1000)
            self._check_goes_on()
        self._terminate()

    def _terminate(self) -> None:
        code = self.broker.stop()
        if code != 0:
            self._complaints.append(f"the broker ended with {code} after SIGTERM")

    def _check_goes_on(self) -> None:
        """Check that after a full disk, the last stable offset soon passes all current records without a restart."""
        try:
            ends = {where: high for where, (_, high) in observe.ends(self.broker.bootstrap, ALL_PARTITIONS).items()}
            late = observe.unsettled(self.broker.bootstrap, ends, SETTLE_S)
        except Exception as error:
            self._report.findings.append(f"{self._seed}: the broker does not answer after a full disk: {error}")
            return
        self._report.findings += [f"{self._seed}: after a full disk, {line}" for line in late]

    def _end(self, kills: int) -> None:
        """End the broker process, and record the triggered faults and the errors in its log.

        ``kills`` is the number of kills to count if the process was still running.
        """
        new_hits = hits_in(self._hits_path)[self._hits_seen :]
        self._hits_seen += len(new_hits)
        if self.broker.is_running and not any(hit.do == TERM for hit in new_hits):
            self._report.kills["anywhere", "from outside"] += kills
        if any(hit.do == TERM for hit in new_hits):
            self._terminate()
        self.broker.kill()
        for hit in new_hits:
            self._report.triggered(hit)
        was_full = any(hit.do == FULL for hit in new_hits)
        self._complaints += observe.complaints(self.broker.logs[self._log_begin :], disk_was_full=was_full)

    def _judge(self, history: History) -> None:
        bootstrap = self.broker.bootstrap
        ends = observe.settled(bootstrap, ALL_PARTITIONS, SETTLE_S)
        groups = sorted({a.group for a in history.attempts if a.group})
        inputs = [where for where in PARTITIONS if where[0] == "in"]
        seen = Observation(
            committed=observe.shown(bootstrap, PARTITIONS, committed=True),
            uncommitted=observe.shown(bootstrap, PARTITIONS, committed=False),
            stored={},
            ends=ends,
            offsets={group: observe.committed_offsets(bootstrap, group, inputs) for group in groups},
        )
        seen.others[self._reader] = observe.shown_to(self._reader, bootstrap, sorted(TOPICS), seen.committed)
        self._terminate()
        self._end(0)
        seen.stored = observe.stored(self.broker.data_dir)
        seen.unfinished = observe.unfinished(self.broker.data_dir)
        seen.audit = observe.audit(self.broker.data_dir)
        seen.errors = self._complaints
        report = self._report
        report.findings += [f"{self._seed}: {finding}" for finding in [*self.clients.findings, *check(history, seen)]]
        report.transactions += outcomes(history, seen)
        report.fenced += history.fenced
        report.troubles.update(trouble[:110] for trouble in history.troubles)


def has_java() -> tuple[bool, str]:
    """Whether the Java clients are available on this machine, and if not, the reason."""
    try:
        kafka.java()
        kafka.jars("clients")
    except kafka.Unavailable as missing:
        return False, str(missing)
    return True, ""


def run(
    kills: int, seed: str, *, java: bool, progress: Callable[[int], None] = lambda done: None, keep: Path | None = None
) -> Report:
    """Test brokers on one new data directory after the other until ``kills`` kills are done or a check fails.

    All directories are created in ``keep`` if it is set. Otherwise only directories with findings are kept.
    """
    report = Report(seed)
    number = 0
    while report.killed < kills and not report.findings:
        number += 1
        directory = Path(tempfile.mkdtemp(prefix=f"ottla-chaos-{number}-", dir=keep))
        one = Round(directory, f"{seed}/{number}", report, java=java, number=number)
        try:
            one.run(min(KILLS_A_ROUND, kills - report.killed), progress)
        except Exception:
            report.findings.append(f"{seed}/{number}: {traceback.format_exc()}")
        finally:
            one.broker.kill()
        if report.findings:
            report.findings.append(f"the directory of this round is {directory}")
        elif keep is None:
            shutil.rmtree(directory)
    return report
