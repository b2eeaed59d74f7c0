"""Runs a stream on each version of Spark in each way of starting it, kills it, and writes the matrix in docs/spark.md.

``make spark-matrix`` runs all; ``--version`` and ``--way`` select cells. Each version has a virtual environment in the cache
directory (0.6 GB), which is made once. A run copies numbered records to another topic by `tools.spark_round_trip`. Its driver is
killed with SIGKILL in the middle and started again; then each number must be there once. Cells that are not run keep their result
on the page.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from ottla import Broker
from ottla.client import ClientError, KafkaClient, NewRecord
from tools.kafka import cache_dir, free_port
from tools.spark_environments import RELEASES, ROOT, Failed, Release, environment_of, other_minor, other_patch

TARGET: Final = ROOT / "docs" / "spark.md"
BEGIN, END = "<!-- matrix of versions: begin -->", "<!-- matrix of versions: end -->"
RECORDS: Final = 900
KILL_AFTER: Final = 150
"""Number of committed records after which the driver is killed."""
METRICS_BUG: Final = "at org.apache.spark.sql.kafka010.KafkaMicroBatchStream$.metrics("
"""A line of the error by which Spark 4.1 may end a stream that was killed within a batch and started again (SPARK-57438). The batch
is committed by then, and the next start continues."""
LARGE_EVERY: Final = 50
"""One in this number of records is so large that tasks write its batch, and not the driver (`small_batches.MAX_RECORD_BYTES`)."""
LARGE_BYTES: Final = 17 << 10
SLOW_MS: Final = 3_000
"""Delay of the response to a write to one partition, so that a writing task is slow."""
EXECUTOR_KILLS: Final = 2
RUN_TIMEOUT_S: Final = 280.0
HOSTS: Final = ("127.0.0.1", "127.0.0.2")
"""Addresses of the workers of a cluster."""
POLL_S: Final = 0.3
NOT_RUN: Final = "–"


WAYS: Final = {
    "local": "`local[2]`, foreachBatch",
    "tasks": "`local[*]`, foreachBatch, tasks write",
    "format": '`local[2]`, `format("ottla")`',
    "retries": "a task fails and Spark runs it again (`local[2,4]`)",
    "cluster": "standalone cluster of two workers, one of which is killed too",
    "executor": "executors of a standalone cluster are killed in the middle of batches",
    "dynamic": "dynamic allocation with shuffle tracking on a standalone cluster",
    "speculation": "`spark.speculation=true` with slow tasks on a standalone cluster",
    "submit": "`spark-submit --py-files`",
    "patch": "workers have another patch version of Python",
    "minor": "workers have another minor version of Python",
    "connect": 'Spark Connect, `format("ottla")`',
    "connect-batch": "Spark Connect, foreachBatch",
}
"""The ways to start a stream, which are the rows of the matrix."""
ON_CLUSTER: Final = ("cluster", "executor", "dynamic", "speculation")
BY_TASKS: Final = (*ON_CLUSTER, "tasks", "retries", "patch")
"""Ways whose batches are written by tasks."""
MASTERS: Final = {"retries": "local[2,4]", "tasks": "local[*]"}
SLOW: Final = ("executor", "speculation")
REFUSED: Final = {
    "minor": "Spark's workers have another minor version of Python than the driver",
    "connect-batch": "on Spark Connect write with",
}
"""Ways that the library refuses, with the beginning of the error."""
NO_DATA_SOURCES: Final = "has no data sources in Python"
"""The error of Spark 3.5 for `format("ottla")`."""


def refusal_of(release: Release, way: str) -> str | None:
    """Return a part of the error with which the library refuses a cell; None if it must work."""
    if release.version.startswith("3.") and way in ("format", "connect"):
        return NO_DATA_SOURCES
    return REFUSED.get(way)


# runs


@dataclass(slots=True)
class Run:
    """The runs of one cell of the matrix."""

    release: Release
    way: str
    python: Path
    folder: Path
    bootstrap: str
    master: str = "local[2]"
    kills: int = 0
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, log: IO[str], *, forever: bool = False) -> subprocess.Popen[str]:
        """Start the stream in a process group of its own. It ends when all records are copied, but not with ``forever``."""
        program: list[str | Path] = [self.python, ROOT / "tools" / "spark_round_trip.py"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
        environment |= {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1"}
        if self.way == "submit":
            home = self._spark_home()
            archive = subprocess.run(
                [self.python, "-c", _ARCHIVE, str(self.folder)], env=environment, capture_output=True, text=True, check=True
            ).stdout.strip()
            del environment["PYTHONPATH"]
            environment |= {"PYSPARK_PYTHON": str(self.python), "SPARK_HOME": str(home)}
            submit = ["--master", self.master, "--packages", self.release.packages, "--conf", f"spark.jars.ivy={_ivy()}"]
            program = [home / "bin" / "spark-submit", *submit, "--py-files", archive, ROOT / "tools" / "spark_round_trip.py"]
        if self.way == "patch":
            environment["PYSPARK_PYTHON"] = str(other_patch(self.python, self.folder))
        if self.way == "minor":
            environment["PYSPARK_PYTHON"] = str(other_minor(self.folder))
        if self.master.startswith("spark:") or self.way in ("connect", "connect-batch"):
            environment["PYSPARK_PYTHON"] = str(self.python)
        arguments = ["--bootstrap", self.bootstrap, "--checkpoint", str(self.folder / "checkpoint"), "--way", self.way]
        packages = self.release.packages_of_connect if self.way in ("connect", "connect-batch") else self.release.packages
        arguments += ["--packages", packages, "--ivy", str(_ivy()), "--master", self.master]
        if forever:
            arguments.append("--forever")
        return subprocess.Popen([*program, *arguments], stdout=log, stderr=log, text=True, env=environment, start_new_session=True)

    def _spark_home(self) -> Path:
        program = "import pyspark; print(pyspark.__path__[0])"
        return Path(subprocess.run([self.python, "-c", program], capture_output=True, text=True, check=True).stdout.strip())

    @contextmanager
    def cluster(self, log: IO[str]) -> Iterator[None]:
        """Run a standalone master and two workers. The workers have different addresses, because Spark copies a slow task only to
        another host."""
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        master = self._start_of_cluster("master.Master", "127.0.0.1", log, "--port", str(port))
        try:
            for host in HOSTS:
                self.workers.append(self._start_worker(host, log))
            yield
        finally:
            for process in (master, *self.workers):
                end(process)

    def restart_worker(self, number: int, log: IO[str]) -> None:
        """Kill a worker and its executor, and start a new worker."""
        end(self.workers[number])
        self.workers[number] = self._start_worker(HOSTS[number], log)

    def _start_worker(self, host: str, log: IO[str]) -> subprocess.Popen[str]:
        work = str(self.folder / f"work-{host}")
        return self._start_of_cluster("worker.Worker", host, log, "--cores", "2", "--memory", "1g", "--work-dir", work, self.master)

    def _start_of_cluster(self, kind: str, host: str, log: IO[str], *arguments: str) -> subprocess.Popen[str]:
        home = self._spark_home()
        environment = {**os.environ, "SPARK_LOCAL_IP": host, "SPARK_HOME": str(home), "PYTHONPATH": ""}
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", host, "--webui-port", "0"]
        return subprocess.Popen([*command, *arguments], stdout=log, stderr=log, text=True, env=environment, start_new_session=True)

    def executors(self) -> list[int]:
        """Return the process ids of the executors, which are children of the workers."""
        return _children_of({worker.pid for worker in self.workers})

    def python_workers(self) -> list[int]:
        """Return the process ids of the Python workers. The daemon of each executor forks them."""
        return _children_of(set(_children_of(set(self.executors()))))


def _children_of(parents: set[int]) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) in parents:
                found.append(int(entry.name))
    return found


_ARCHIVE: Final = """
import sys
from pathlib import Path
from ottla.spark.sink.session_setup import package_archive
print(package_archive(Path(sys.argv[1])))
"""


def _ivy() -> Path:
    return cache_dir() / "ivy"


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process and its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_cell(release: Release, way: str) -> tuple[str, int]:
    """Run a cell of the matrix. Returns ``ok`` or ``refused``, and the number of processes that were killed. Raises `Failed`."""
    python = environment_of(release)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-matrix-", ignore_cleanup_errors=True)))
        broker = stack.enter_context(Broker())
        client = stack.enter_context(KafkaClient(broker.bootstrap))
        for topic in ("in", "out"):
            client.create_topic(topic, 4)
        client.produce("in", [numbered_record(n, is_large=way in BY_TASKS and n % LARGE_EVERY == 0) for n in range(RECORDS)])
        if way in SLOW:
            broker.faults.delay(answer_ms=SLOW_MS, api="Produce", topic="out", partition=0, times=None)
        log = stack.enter_context((folder / "log").open("w+"))
        run = Run(
            release, way, python, folder, broker.bootstrap, {"retries": "local[2,4]", "tasks": "local[*]"}.get(way, "local[2]")
        )
        if way in ON_CLUSTER:
            stack.enter_context(run.cluster(log))
        try:
            return _killed_and_repeated(run, client, log), run.kills
        except Failed as failed:
            failure = failed
        finally:
            log.seek(0)
            kept = cache_dir() / "spark-matrix" / f"{release.version}-{way}.log"
            kept.write_text(log.read())
        raise Failed(f"{failure}; see {kept}")


def numbered_record(number: int, *, is_large: bool) -> NewRecord:
    """Return a record whose value is a number, padded to `LARGE_BYTES` if it is large."""
    return NewRecord((b"%d" % number).ljust(LARGE_BYTES if is_large else 0), key=b"k%d" % (number % 97))


def _killed_and_repeated(run: Run, client: KafkaClient, log: IO[str]) -> str:
    first = run.start(log)
    refusal = refusal_of(run.release, run.way)
    try:
        _wait(run, first, lambda: _committed(client) >= KILL_AFTER or first.poll() is not None)
        if run.way == "executor":
            _kill_executors(run, client, first)
    finally:
        was_running = first.poll() is None
        end(first)
    if refusal is not None:
        log.flush()
        if refusal not in Path(log.name).read_text() or _committed(client):
            raise Failed("the stream was not refused")
        return "refused"
    if not was_running:
        raise Failed(f"the stream ended with {first.returncode} before it was killed")
    run.kills += 1
    if run.way == "cluster":
        end(run.workers[0])
        run.kills += 1
    log.flush()
    before = Path(log.name).stat().st_size
    code = _run_to_its_end(run, log)
    if code and _hit_metrics_bug(log, before):
        code = _run_to_its_end(run, log)
    if code:
        raise Failed(f"the second start ended with {code}")
    numbers = sorted(int(record.value or b"") for record in client.records("out"))
    if numbers != list(range(RECORDS)):
        raise Failed(f"{len(numbers)} records, {len(set(numbers))} of them different; expected {RECORDS}")
    return "ok"


def _run_to_its_end(run: Run, log: IO[str]) -> int | None:
    """Start the stream and wait until it has read all records. Returns the exit code."""
    driver = run.start(log)
    try:
        _wait(run, driver, lambda: driver.poll() is not None)
    finally:
        end(driver)
    return driver.returncode


def _hit_metrics_bug(log: IO[str], before: int) -> bool:
    """Whether Spark's Kafka source ended the stream by SPARK-57438 (`METRICS_BUG`), in the log after its first ``before`` bytes."""
    log.flush()
    return METRICS_BUG in Path(log.name).read_bytes()[before:].decode()


def _committed(client: KafkaClient) -> int:
    return len(client.records("out"))


def _kill_executors(run: Run, client: KafkaClient, driver: subprocess.Popen[str]) -> None:
    """Kill executors while a batch is partly written, each time after another committed batch. Raises `Failed`."""
    for _ in range(EXECUTOR_KILLS):
        before = _committed(client)
        _wait(run, driver, lambda: _is_writing(client) or driver.poll() is not None)
        victims = run.executors()
        if driver.poll() is not None or not victims:
            raise Failed("the stream has ended, or has no executor, before an executor was killed")
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
            run.kills += 1
        _wait(run, driver, lambda before=before: _committed(client) > before or driver.poll() is not None)  # type: ignore[misc]


def _is_writing(client: KafkaClient) -> bool:
    """Whether the open transaction has records in the output topic."""
    try:
        return any(topic == "out" for topic, _ in client.transaction("matrix").partitions)
    except ClientError:
        return False


def _wait(run: Run, process: subprocess.Popen[str], is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while not is_done():
        if time.monotonic() > deadline:
            raise Failed(f"{run.way}: not done within {RUN_TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)


# the page


def table(results: Mapping[str, str]) -> str:
    """Format the matrix. The keys of ``results`` are ``VERSION WAY``."""
    lines = [
        f"| | {' | '.join(release.version for release in RELEASES.values())} |",
        f"|---|{'---|' * len(RELEASES)}",
    ]
    for way, words in WAYS.items():
        cells = (results.get(f"{release.version} {way}", NOT_RUN) for release in RELEASES.values())
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rewritten(page: str, results: Mapping[str, str]) -> str:
    """Return the page with the matrix between its markers."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{table(results)}\n{END}{rest.split(END)[1]}"


def results_on(page: str) -> dict[str, str]:
    """Return the results of the table on the page, by ``VERSION WAY``."""
    lines = [line.strip("|").split("|") for line in page.split(BEGIN)[1].split(END, maxsplit=1)[0].strip().splitlines()]
    if not lines:
        return {}
    versions = [cell.strip() for cell in lines[0][1:]]
    ways = {words: way for way, words in WAYS.items()}
    results = {}
    for words, *cells in lines[2:]:
        way = ways.get(words.strip())
        for version, cell in zip(versions, cells, strict=True):
            if way is not None and cell.strip() != NOT_RUN:
                results[f"{version} {way}"] = cell.strip()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", choices=[*RELEASES], action="append", help="minor version of Spark; repeatable (default: all)")
    parser.add_argument("--way", choices=[*WAYS], action="append", help="way of starting the stream; repeatable (default: all)")
    given = parser.parse_args()
    # The processes of a cell have their own process groups, and are killed when the exception arrives.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    (cache_dir() / "spark-matrix").mkdir(parents=True, exist_ok=True)
    for minor in given.version or RELEASES:
        for way in given.way or WAYS:
            release = RELEASES[minor]
            began_s, kills = time.monotonic(), 0
            try:
                result, kills = run_cell(release, way)
            except Failed as failed:
                result = "fails"
                print(f"{release.version} {way}: {failed}", flush=True)
            # Another process may have written results of other cells meanwhile.
            page = TARGET.read_text()
            TARGET.write_text(rewritten(page, results_on(page) | {f"{release.version} {way}": result}))
            print(f"{release.version} {way}: {result} ({kills} kills, {time.monotonic() - began_s:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
