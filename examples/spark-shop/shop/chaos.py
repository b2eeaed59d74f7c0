"""Kills driver, executors and broker while the jobs run, restarts what was killed, and ends with the audit and a picture.

The seed decides the orders, the order of the victims, and after which number of committed transactions each kill happens, so the
jobs have the same progress at a kill on a fast and on a slow machine. A driver that fails is started again until all topics are
read.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ottla import Broker
from ottla.client import ClientError, KafkaClient
from ottla.pipeline.signals import stopping_signals
from shop import audit as auditing
from shop.cluster import StandaloneCluster, kill, spawned
from shop.findings import shown
from shop.generate import Workload, fill
from shop.picture import drawn
from shop.running import SIGNALS
from shop.schemas import RECEIPTS
from shop.settings import Settings
from shop.topics import create

DRIVER, EXECUTOR, BROKER = VICTIMS = ("driver", "executor", "broker")
STEP_MS: Final = 20_000
"""Event time between two orders, in ms. A batch of `BATCH_RECORDS` orders spans less time than the watermark allows."""
BATCH_RECORDS: Final = 60
SINKS: Final = 5
"""Number of sinks of all jobs. Each sink commits at least one transaction per `BATCH_RECORDS` orders. The kills are spread over
these transactions."""
POLL_S: Final = 0.3
MAX_JITTER_S: Final = 1.5
"""Maximum random delay of a kill, in seconds, so that kills hit different steps of a batch."""
MAX_DOWN_S: Final = 3.0
"""Maximum time, in seconds, for which the broker is down."""
MAX_S: Final = 3_600.0
"""Maximum duration of a run, in seconds."""
MAX_STARTS: Final = 10
"""Maximum number of starts of the driver that were not caused by a kill."""
EXECUTOR_SETTINGS: Final = {
    "spark.task.maxFailures": "8",
    "spark.stage.maxConsecutiveAttempts": "8",
    "spark.executor.memory": "512m",
}


class ChaosFailed(ClientError):
    """The run could not be finished, so it proves nothing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run."""

    seed: int = 1
    kills: int = 6
    orders: int = 480

    def victims(self) -> list[str]:
        """Return the processes to kill, in order: driver, executor and broker once before any of them is repeated."""
        rng = random.Random(self.seed)
        chosen: list[str] = []
        while len(chosen) < self.kills:
            chosen += rng.sample(VICTIMS, len(VICTIMS))
        return chosen[: self.kills]


@dataclass(slots=True)
class Events:
    """The events of a run, for the picture. Times are in ms since 1970. ``lives`` has the times in which driver and broker ran."""

    began_ms: int
    kills: list[tuple[int, str]] = field(default_factory=list)
    lives: list[tuple[str, int, int]] = field(default_factory=list)
    commits: list[tuple[int, str]] = field(default_factory=list)
    ended_ms: int = 0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def say_at_once(line: str) -> None:
    print(line, flush=True)


Say = Callable[[str], None]


def run(settings: Settings, plan: Plan, directory: str | None = None, picture: str | None = None, say: Say = say_at_once) -> bool:
    """Run the plan on a broker and a Spark cluster of its own. Returns whether the audit is sound. Raises `ChaosFailed`."""
    with ExitStack() as stack:
        # A signal raises an exception, so that the ``with`` blocks end all processes.
        stack.enter_context(stopping_signals(*SIGNALS))
        where = Path(directory or stack.enter_context(tempfile.TemporaryDirectory(prefix="shop-chaos-"))).absolute()
        where.mkdir(parents=True, exist_ok=True)
        if any(where.iterdir()):
            raise ChaosFailed(f"{where} is not empty: give --directory another directory")
        if picture and not Path(picture).absolute().parent.is_dir():
            raise ChaosFailed(f"the directory of {picture} does not exist: create it, or give --picture another file")
        broker = stack.enter_context(Broker(data_dir=where / "data"))
        cluster = stack.enter_context(StandaloneCluster(where))
        settings = replace(
            settings,
            bootstrap=broker.bootstrap,
            checkpoints=str(where / "checkpoints"),
            master=cluster.url,
            batch_records=BATCH_RECORDS,
            kafka={},
        )
        create(settings)
        fill(settings, Workload(plan.orders, plan.seed, STEP_MS))
        say(f"seed {plan.seed}: {plan.orders:,} orders, kills of {', '.join(plan.victims())}; logs in {where}")
        chaos = Chaos(settings, plan, broker, cluster, where, say)
        chaos.run()
        audited = auditing.run(replace(settings, master=""))
        with KafkaClient(broker.bootstrap) as client:
            chaos.events.commits = commits(client)
    say(shown(audited))
    killed = Counter(victim for _, victim in chaos.events.kills)
    say(f"killed: {', '.join(f'{victim} {count} times' for victim, count in killed.items())}")
    if picture:
        Path(picture).write_text(drawn(chaos.events, audited, f"shop chaos --seed {plan.seed} --kills {plan.kills}"))
        say(f"picture: {picture}")
    return audited.is_sound


def commits(client: KafkaClient) -> list[tuple[int, str]]:
    """Return the time of each transaction's receipt, and the name of the sink."""
    return [(record.timestamp_ms, (record.key or b"").decode()) for record in client.records(RECEIPTS)]


class Chaos:
    """One run: starts the driver again until it ends without an error, and kills the victims of the plan."""

    def __init__(
        self, settings: Settings, plan: Plan, broker: Broker, cluster: StandaloneCluster, directory: Path, say: Say
    ) -> None:
        self._plan = plan
        self._broker = broker
        self._cluster = cluster
        self._directory = directory
        self._say = say
        self._rng = random.Random(f"kills of {plan.seed}")
        self._due = self._planned()
        self._deadline = time.monotonic() + MAX_S
        self._broker_began_ms = now_ms()
        self.events = Events(now_ms())
        (directory / "shop.toml").write_text(as_toml(settings))

    def _planned(self) -> list[tuple[int, str]]:
        """Return for each kill the number of committed transactions after which it happens, and the victim."""
        share = SINKS * (self._plan.orders // BATCH_RECORDS) / self._plan.kills
        return [(int(share * (n + self._rng.random())), victim) for n, victim in enumerate(self._plan.victims())]

    def run(self) -> None:
        unexplained = 0
        while True:
            if self._live() == 0:
                break
            unexplained += 1
            if unexplained > MAX_STARTS + self._plan.kills:
                raise ChaosFailed(f"the driver has failed {unexplained} times; see {self._directory / 'driver.log'}")
        if self._due:
            done = self._plan.kills - len(self._due)
            raise ChaosFailed(f"the jobs ended after {done} of {self._plan.kills} kills: give --orders more or --kills fewer")
        self.events.lives.append((BROKER, self._broker_began_ms, now_ms()))
        self.events.ended_ms = now_ms()

    def _live(self) -> int:
        """Run the driver until it ends, and carry out kills that are due. Returns the driver's exit code."""
        began_ms = now_ms()
        command = [sys.executable, "-m", "shop", "--config", str(self._directory / "shop.toml"), "run"]
        driver = spawned(command, self._directory / "driver.log", environment())
        try:
            while driver.poll() is None:
                if time.monotonic() > self._deadline:
                    raise ChaosFailed(f"the jobs were not done within {MAX_S:.0f} s; see {self._directory / 'driver.log'}")
                if self._is_due():
                    time.sleep(self._rng.uniform(0, MAX_JITTER_S))
                    if self._killed(self._due[0][1], driver):
                        del self._due[0]
                time.sleep(POLL_S)
        finally:
            kill(driver)
        self.events.lives.append((DRIVER, began_ms, now_ms()))
        return driver.returncode

    def _is_due(self) -> bool:
        """Whether the next kill is due. A kill of the driver or of an executor waits until the driver has executors again."""
        if not self._due:
            return False
        after, victim = self._due[0]
        if victim != BROKER and not self._cluster.executors():
            return False
        with suppress(ClientError), KafkaClient(self._broker.bootstrap) as client:
            return len(client.records(RECEIPTS)) >= after
        return False

    def _killed(self, victim: str, driver: subprocess.Popen[bytes]) -> bool:
        """Kill the victim, and start a killed broker again. Returns False if the victim was not running."""
        executors = self._cluster.executors()
        if (victim == DRIVER and driver.poll() is not None) or (victim == EXECUTOR and not executors):
            return False
        if victim == EXECUTOR:
            try:
                os.kill(self._rng.choice(executors), signal.SIGKILL)
            except ProcessLookupError:
                return False
        self.events.kills.append((now_ms(), victim))
        self._say(f"{(now_ms() - self.events.began_ms) / 1_000:6.1f} s: kill the {victim}")
        if victim == DRIVER:
            kill(driver)
        elif victim == BROKER:
            self.events.lives.append((BROKER, self._broker_began_ms, now_ms()))
            self._broker.kill()
            time.sleep(self._rng.uniform(0, MAX_DOWN_S))
            self._broker.start()
            self._broker_began_ms = now_ms()
        return True


def environment() -> dict[str, str]:
    """Return the driver's environment variables, which let Spark repeat tasks and stages often enough to survive the kills."""
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    settings = " ".join(f"--conf {name}={value}" for name, value in EXECUTOR_SETTINGS.items())
    return {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": f"{settings} {given}"}


def as_toml(settings: Settings) -> str:
    """Return the settings as TOML, except the table ``kafka``."""
    values = {name: getattr(settings, name) for name in settings.__dataclass_fields__ if name != "kafka"}
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
