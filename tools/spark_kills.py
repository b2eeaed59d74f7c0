"""Kills drivers, workers, executors, Python workers and the broker while a stream copies a topic, and checks the copy.

``python -m tools.spark_kills --kills 100 --seed 7`` runs the stream of `tools.spark_round_trip` on a standalone cluster of two
workers. ``--way`` says how the stream writes: ``cluster`` by foreachBatch, ``format`` by ``format("ottla")``, ``connect`` by
``format("ottla")`` in a server of Spark Connect that uses the cluster. Each kill waits for a committed batch and a random time, so
kills hit different steps of a batch. In the end each input record must be in the output once, and no transaction may be open.
"""

from __future__ import annotations

import argparse
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
from pathlib import Path
from typing import IO, Final

from ottla import Broker
from ottla.client import ClientError, KafkaClient, NewRecord
from tools.kafka import cache_dir
from tools.spark_environments import RELEASES, Failed, environment_of
from tools.spark_matrix import Run, end, numbered_record, refusal_of

WAYS: Final = ("cluster", "format", "connect")
DRIVER, WORKER, EXECUTOR, PYTHON, BROKER = VICTIMS = ("driver", "worker", "executor", "Python worker", "broker")
PARTITIONS: Final = 4
RECORDS_PER_KILL: Final = 600
LARGE_EVERY: Final = 300
"""One in this number of records is large, so that tasks write about every second batch, and the driver the other batches."""
MAX_JITTER_S: Final = 2.0
"""Maximum random time between a committed batch and the next kill."""
MAX_DOWN_S: Final = 3.0
"""Maximum time for which the broker is down."""
PROGRESS_S: Final = 300.0
"""Maximum time without a committed batch."""
POLL_S: Final = 0.2
MAX_RECORDS: Final = 10_000_000


def plan(seed: int, kills: int) -> list[str]:
    """Return the victims in order. Each kind is killed once before any kind is killed again."""
    rng = random.Random(seed)
    victims: list[str] = []
    while len(victims) < kills:
        victims += rng.sample(VICTIMS, len(VICTIMS))
    return victims[:kills]


class Campaign:
    """One run: keeps the stream alive, kills the planned victims, and counts how often a driver ended by itself."""

    def __init__(self, run: Run, broker: Broker, log: IO[str], seed: int) -> None:
        self._run = run
        self._broker = broker
        self._log = log
        self._rng = random.Random(f"kills of {seed}")
        self._driver = run.start(log, forever=True)
        self._produced = 0
        self._positions = dict.fromkeys(range(PARTITIONS), 0)
        self._count = 0
        self.ended = 0
        """Number of drivers that ended by themselves, for example because the broker was down for too long."""

    def kill(self, victim: str) -> None:
        """Wait until a batch is committed, and a random time. Then kill the victim, and start what does not start by itself."""
        before = self._copied()
        self._produce()
        self._wait_for_copies(before)
        time.sleep(self._rng.uniform(0, MAX_JITTER_S))
        if victim == DRIVER:
            end(self._driver)
        elif victim == WORKER:
            self._run.restart_worker(self._rng.randrange(len(self._run.workers)), self._log)
        elif victim == BROKER:
            self._broker.kill()
            time.sleep(self._rng.uniform(0, MAX_DOWN_S))
            self._broker.start()
        else:
            self._kill_one(victim, self._run.executors if victim == EXECUTOR else self._run.python_workers)

    def finish(self) -> Counter[int]:
        """Wait until all records are copied, also those of one more batch, and end the stream. Returns how often each number is in
        the output.

        The last batch shows that the driver has repeated what it repeats after the last kill.
        """
        self._produce()
        while (before := self._copied()) < self._produced:
            self._wait_for_copies(before)
        end(self._driver)
        with KafkaClient(self._broker.bootstrap) as client:
            return Counter(int(record.value or b"") for record in client.records("out", max_records=MAX_RECORDS))

    @property
    def produced(self) -> int:
        """Number of records in the input. Their values are the numbers from 0."""
        return self._produced

    def close(self) -> None:
        end(self._driver)

    def _produce(self) -> None:
        numbers = range(self._produced, self._produced + RECORDS_PER_KILL)
        with KafkaClient(self._broker.bootstrap) as client:
            client.produce("in", [record(number) for number in numbers])
        self._produced = numbers.stop

    def _wait_for_copies(self, before: int) -> None:
        """Wait until the output has more committed records than ``before``."""
        deadline = time.monotonic() + PROGRESS_S
        while self._copied() == before:
            if time.monotonic() > deadline:
                raise Failed(f"no batch was committed within {PROGRESS_S:.0f} s")
            self._keep_alive()
            time.sleep(POLL_S)

    def _copied(self) -> int:
        """Return the number of committed records in the output."""
        with KafkaClient(self._broker.bootstrap) as client:
            for copied in client.records("out", start=self._positions, max_records=MAX_RECORDS):
                self._positions[copied.partition] = copied.offset + 1
                self._count += 1
        return self._count

    def _keep_alive(self) -> None:
        """Start the driver again if it has ended."""
        if self._driver.poll() is not None:
            self.ended += self._driver.returncode != -signal.SIGKILL
            self._driver = self._run.start(self._log, forever=True)

    def _kill_one(self, victim: str, running: Callable[[], list[int]]) -> None:
        """Kill one of the running processes. Waits until there is one."""
        deadline = time.monotonic() + PROGRESS_S
        while True:
            victims = running()
            if victims:
                with suppress(ProcessLookupError):
                    os.kill(self._rng.choice(victims), signal.SIGKILL)
                    return
            if time.monotonic() > deadline:
                raise Failed(f"there was no {victim} to kill within {PROGRESS_S:.0f} s")
            self._keep_alive()
            time.sleep(POLL_S)


def record(number: int) -> NewRecord:
    """Return a record whose value is a number; `LARGE_EVERY` says which ones are padded."""
    return numbered_record(number, is_large=number % LARGE_EVERY == 0)


def run_campaign(version: str, way: str, seed: int, kills: int) -> None:
    """Run a campaign. Raises `Failed` if a record is lost or duplicated, a transaction stays open, or no batch is committed."""
    release = RELEASES[version]
    if kills < 1:
        raise Failed(f"{kills} kills prove nothing: give at least 1")
    if (refusal := refusal_of(release, way)) is not None:
        raise Failed(f"Spark {release.version} {refusal}, so it cannot write with {way!r}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-kills-", ignore_cleanup_errors=True)))
        broker = stack.enter_context(Broker(data_dir=folder / "data"))
        with KafkaClient(broker.bootstrap) as client:
            for topic in ("in", "out"):
                client.create_topic(topic, PARTITIONS)
        run = Run(release, way, environment_of(release), folder, broker.bootstrap)
        log_path = cache_dir() / "spark-matrix" / f"{release.version}-kills-{way}-{seed}.log"
        log = stack.enter_context(log_path.open("w"))
        stack.enter_context(run.cluster(log))
        campaign = Campaign(run, broker, log, seed)
        stack.callback(campaign.close)
        killed: Counter[str] = Counter()
        began_s = time.monotonic()
        for victim in plan(seed, kills):
            campaign.kill(victim)
            killed[victim] += 1
            print(f"{time.monotonic() - began_s:6.0f} s: killed the {victim} ({killed.total()} of {kills})", flush=True)
        copied = campaign.finish()
        with KafkaClient(broker.bootstrap) as client:
            still_open = [one.transactional_id for one in client.transactions(states=["Ongoing", "PrepareCommit", "PrepareAbort"])]
    wrong = {number: copied[number] for number in range(campaign.produced) if copied[number] != 1}
    print(
        f"{way}, seed {seed}: {killed.total()} kills ({', '.join(f'{count} of the {victim}' for victim, count in killed.items())}),"
        f" {campaign.produced:,} records, {campaign.ended} drivers ended by themselves, {time.monotonic() - began_s:.0f} s"
    )
    if wrong or len(copied) != campaign.produced or still_open:
        raise Failed(f"lost or duplicated: {dict(list(wrong.items())[:10])}; open transactions: {still_open}; see {log_path}")
    print("each record is in the output once", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", choices=[*RELEASES], default="4.2", help="minor version of Spark (default: 4.2)")
    parser.add_argument("--way", choices=WAYS, default="cluster", help="how the stream writes (default: cluster)")
    parser.add_argument("--kills", type=int, default=20, help="number of kills (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="seed of victims and times (default: 1)")
    given = parser.parse_args()
    # The processes have their own process groups, and are killed when the exception arrives.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    try:
        run_campaign(given.version, given.way, given.seed, given.kills)
    except (Failed, ClientError, subprocess.SubprocessError) as error:
        sys.exit(f"the campaign failed: {error}")


if __name__ == "__main__":
    main()
