"""The processes of stock clients. They are started, killed, paused, resumed as zombies, and stopped at the end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ottla.simulation.history import History
from tests.chaos.history import read
from tests.chaos.worker import TIMEOUT_MS

ROOT = Path(__file__).parent.parent.parent
TOPICS = {"in": 3, "out": 4, "a": 2, "b": 1}
"""Number of partitions of each topic."""
WORKERS = {
    "confluent-1": (
        "confluent-kafka",
        ("feed:feed-confluent-1", "plain:plain-confluent-1", "pipe:pipe-confluent-1", "solo:solo-confluent"),
    ),
    "confluent-2": ("confluent-kafka", ("plain:plain-confluent-2", "pipe:pipe-confluent-2", "watch:watch-confluent")),
    "kafka-python": ("kafka-python", ("plain:plain-kpy-1", "pipe:pipe-kpy-1", "watch:watch-kpy")),
    "aiokafka": ("aiokafka", ("plain:plain-aio-1", "pipe:pipe-aio-1", "watch:watch-aio")),
    "java": ("java", ("feed:feed-java-1", "plain:plain-java-1", "pipe:pipe-java-1", "solo:solo-java", "watch:watch-java")),
}
"""Client processes by name, each with its client library and its actors. Both confluent-kafka processes are in one group."""
PACE_MS = 25
STOP_S = 130.0
"""Time for all clients to stop, in seconds. A Java producer fails a record only after its delivery timeout of two minutes."""
ZOMBIE_S = 15.0
"""Maximum pause of a zombie, in seconds. It is resumed after this time even if its successor has not started to write."""


@dataclass(slots=True)
class _Worker:
    name: str
    history: Path
    process: subprocess.Popen[bytes]
    stopped_s: float | None = None
    successor: Path | None = None

    def signal_all(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Clients:
    """All client processes: the current process of each name, and paused or resumed predecessors (zombies)."""

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        seed: str,
        workers: dict[str, tuple[str, tuple[str, ...]]],
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """``timeout_ms`` is the transaction timeout of the clients."""
        self._directory = directory
        self._bootstrap = bootstrap
        self._seed = seed
        self._actors = workers
        self._timeout_ms = timeout_ms
        self._names = list(workers)
        self._instances: Counter[str] = Counter()
        self._workers: dict[str, _Worker] = {}
        self._zombies: list[_Worker] = []
        self.findings: list[str] = []

    def start(self) -> None:
        for name in self._names:
            self._spawn(name)

    def _spawn(self, name: str) -> _Worker:
        client, actors = self._actors[name]
        self._instances[name] += 1
        instance = self._instances[name]
        history = self._directory / f"history-{name}-{instance}"
        command = [sys.executable, "-m", "tests.chaos.worker", "--client", client, "--bootstrap", self._bootstrap]
        command += ["--history", str(history), "--instance", str(instance), "--seed", self._seed, "--pace-ms", str(PACE_MS)]
        command += [
            "--timeout-ms",
            str(self._timeout_ms),
            "--topics",
            ",".join(f"{topic}={count}" for topic, count in TOPICS.items()),
            *actors,
        ]
        with (self._directory / f"worker-{name}-{instance}.txt").open("wb") as output:
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True)
        self._workers[name] = _Worker(name, history, process)
        return self._workers[name]

    def kill_one(self, rng: random.Random) -> None:
        """Kill a random process with SIGKILL and start a successor with the same transactional ids."""
        worker = self._workers[rng.choice(self._names)]
        worker.signal_all(signal.SIGKILL)
        worker.process.wait()
        self._spawn(worker.name)

    def stop_one(self, rng: random.Random) -> None:
        """Pause a random process with SIGSTOP and start a successor with the same transactional ids.

        `wake_zombies` resumes the paused process later.
        """
        zombie = self._workers[rng.choice(self._names)]
        zombie.signal_all(signal.SIGSTOP)
        Path(f"{zombie.history}.retired").touch()
        zombie.stopped_s = time.monotonic()
        zombie.successor = self._spawn(zombie.name).history
        self._zombies.append(zombie)

    def wake_zombies(self, *, all_of_them: bool = False) -> None:
        """Resume the paused processes whose successors have initialised a producer for every transactional id."""
        for zombie in self._zombies:
            if zombie.stopped_s is None or zombie.successor is None:
                continue
            actors = sum(not actor.startswith("watch") for actor in self._actors[zombie.name][1])
            begun = [s for s in read(list(self._directory.glob(f"{zombie.successor.name}.*"))).sessions if s.session == 1]
            if all_of_them or len(begun) == actors or time.monotonic() > zombie.stopped_s + ZOMBIE_S:
                zombie.signal_all(signal.SIGCONT)
                zombie.stopped_s = None

    def end(self) -> History:
        """Stop all clients after their current transaction. Returns the history that they have written."""
        self.wake_zombies(all_of_them=True)
        everyone = [*self._zombies, *self._workers.values()]
        for worker in everyone:
            worker.process.terminate()
        deadline = time.monotonic() + STOP_S
        for worker in everyone:
            with suppress(subprocess.TimeoutExpired):
                worker.process.wait(max(0.1, deadline - time.monotonic()))
            if worker.process.poll() is None:
                # SIGUSR1 makes the process write the stack traces of its threads.
                worker.process.send_signal(signal.SIGUSR1)
                time.sleep(0.5)
                self.findings.append(f"the clients of {worker.name} did not come to an end")
            worker.signal_all(signal.SIGKILL)
            worker.process.wait()
        return read(list(self._directory.glob("history-*-*.*")))
