"""Runs a stream on each version of Spark in each way of starting it, kills it, and writes the matrix in docs/spark.md.

``make spark-matrix`` runs all; ``--version`` and ``--way`` choose some. Each version has a virtual environment in the cache
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
import tomllib
import venv
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from tools.kafka import cache_dir

ROOT: Final = Path(__file__).parent.parent
TARGET: Final = ROOT / "docs" / "spark.md"
BEGIN, END = "<!-- matrix of versions: begin -->", "<!-- matrix of versions: end -->"
RECORDS: Final = 1_500
KILL_AFTER: Final = 300
"""Number of committed records after which the driver is killed."""
RUN_TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.3
NOT_RUN: Final = "–"


@dataclass(slots=True, frozen=True)
class Release:
    """A release of Spark with the packages that are installed with it."""

    version: str
    connector: str = ""
    """The version of Spark's package for Kafka, if it is another one."""
    pandas: str = "pandas>=2.2,<3"

    @property
    def packages(self) -> str:
        return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{self.connector or self.version}"


RELEASES: Final = {
    "4.0": Release("4.0.2", connector="4.0.0"),
    "4.1": Release("4.1.4"),
    "4.2": Release("4.2.1", pandas="pandas>=3,<4"),
    "4.3": Release("4.3.0", pandas="pandas>=3,<4"),
}
"""The release of 4.0 that the project's tests use, and the newest release of each later minor version."""
WAYS: Final = {
    "local": "`local[2]`, foreachBatch",
    "format": '`local[2]`, `format("ottla")`',
    "retries": "a task fails and Spark runs it again (`local[2,4]`)",
    "cluster": "standalone cluster of two workers, one of which is killed too",
    "submit": "`spark-submit --py-files`",
    "patch": "workers have another patch version of Python",
    "speculation": "`spark.speculation=true`",
    "connect": 'Spark Connect, `format("ottla")`',
}
"""How a stream is started: the rows of the matrix."""
REFUSED: Final = {"speculation": "spark.speculation runs copies of slow tasks"}
"""Ways that the library refuses, with the beginning of the error."""


class Failed(Exception):
    """A cell of the matrix has failed."""


# environments


def environment_of(release: Release) -> Path:
    """Return the interpreter of a virtual environment with a release of Spark. Creates it if it does not exist."""
    folder = cache_dir() / "spark-matrix" / release.version
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, with_pip=True, clear=True)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        needed = [
            *project["dependencies"],
            *project["optional-dependencies"]["demo"],
            "fastavro>=1.9",
            "pyarrow>=17",
            "numpy>=1.26",
        ]
        connect = ["grpcio>=1.67", "grpcio-status>=1.67", "googleapis-common-protos>=1.65", "zstandard>=0.25", "setuptools"]
        wanted = [f"pyspark=={release.version}", release.pandas, *connect, *needed]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        ready.touch()
    return python


def other_patch(python: Path, folder: Path) -> Path:
    """Return an interpreter of the same minor version and another patch version, which sees the same packages. Raises `Failed`."""
    minor = f"python3.{sys.version_info.minor}"
    places = [Path(place) / minor for place in os.environ.get("PATH", "").split(os.pathsep)]
    for place in [*places, Path("/usr/bin") / minor]:
        if place.exists() and _version(place) != _version(python):
            worker = folder / "worker"
            subprocess.run([place, "-m", "venv", "--without-pip", worker], check=True)
            packages = next((python.parent.parent / "lib").glob("python3.*")) / "site-packages"
            target = next((worker / "lib").glob("python3.*")) / "site-packages" / "matrix.pth"
            target.write_text(f"import site; site.addsitedir({str(packages)!r})\n{ROOT}\n")
            return worker / "bin" / "python"
    raise Failed(f"no {minor} of another patch version was found")


def _version(python: Path) -> str:
    return subprocess.run(
        [python, "-c", "import sys; print(sys.version_info[:3])"], capture_output=True, text=True, check=True
    ).stdout


# runs


@dataclass(slots=True)
class Run:
    """The runs of one cell: the release, the way, and where its files are."""

    release: Release
    way: str
    python: Path
    folder: Path
    bootstrap: str
    master: str = "local[2]"

    def start(self, log: IO[str]) -> subprocess.Popen[str]:
        """Start the stream in a process group of its own."""
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
        if self.way in ("cluster", "connect"):
            environment["PYSPARK_PYTHON"] = str(self.python)
        arguments = ["--bootstrap", self.bootstrap, "--checkpoint", str(self.folder / "checkpoint"), "--way", self.way]
        arguments += ["--packages", self.release.packages, "--ivy", str(_ivy()), "--master", self.master]
        return subprocess.Popen([*program, *arguments], stdout=log, stderr=log, text=True, env=environment, start_new_session=True)

    def _spark_home(self) -> Path:
        program = "import pyspark; print(pyspark.__path__[0])"
        return Path(subprocess.run([self.python, "-c", program], capture_output=True, text=True, check=True).stdout.strip())

    @contextmanager
    def cluster(self, log: IO[str]) -> Iterator[list[subprocess.Popen[str]]]:
        """Run a standalone master and two workers. Yields the workers."""
        from tools.kafka import free_port

        port = free_port()
        home = self._spark_home()
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home), "PYTHONPATH": ""}
        self.master = f"spark://127.0.0.1:{port}"
        deploy, where = "org.apache.spark.deploy", ["--host", "127.0.0.1", "--webui-port", "0"]
        worker = [f"{deploy}.worker.Worker", *where, "--cores", "2", "--memory", "1g"]
        worker += ["--work-dir", str(self.folder / "work"), self.master]
        started: list[subprocess.Popen[str]] = []
        try:
            for part in ([f"{deploy}.master.Master", *where, "--port", str(port)], worker, worker):
                command = [str(home / "bin" / "spark-class"), *part]
                started.append(
                    subprocess.Popen(command, stdout=log, stderr=log, text=True, env=environment, start_new_session=True)
                )
            yield started[1:]
        finally:
            for process in started:
                end(process)


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


def run_cell(release: Release, way: str) -> str:
    """Run a cell of the matrix. Returns ``ok`` or ``refused``. Raises `Failed`."""
    python = environment_of(release)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-matrix-")))
        broker = stack.enter_context(Broker())
        client = stack.enter_context(KafkaClient(broker.bootstrap))
        for topic in ("in", "out"):
            client.create_topic(topic, 4)
        client.produce("in", [NewRecord(b"%d" % n, key=b"k%d" % (n % 97)) for n in range(RECORDS)])
        log = stack.enter_context((folder / "log").open("w+"))
        run = Run(release, way, python, folder, broker.bootstrap, "local[2,4]" if way == "retries" else "local[2]")
        workers = stack.enter_context(run.cluster(log)) if way == "cluster" else []
        try:
            return _killed_and_repeated(run, client, log, workers)
        except Failed as failed:
            log.seek(0)
            kept = cache_dir() / "spark-matrix" / f"{release.version}-{way}.log"
            kept.write_text(log.read())
            raise Failed(f"{failed}; see {kept}") from None


def _killed_and_repeated(run: Run, client: KafkaClient, log: IO[str], workers: list[subprocess.Popen[str]]) -> str:
    first = run.start(log)
    try:
        _wait(run, first, lambda: len(client.records("out")) >= KILL_AFTER or first.poll() is not None)
    finally:
        was_running = first.poll() is None
        end(first)
    if run.way in REFUSED:
        log.flush()
        if REFUSED[run.way] not in Path(log.name).read_text():
            raise Failed("the stream was not refused")
        return "refused"
    if not was_running:
        raise Failed(f"the stream ended with {first.returncode} before it was killed")
    if workers:
        end(workers[0])
    second = run.start(log)
    try:
        _wait(run, second, lambda: second.poll() is not None)
    finally:
        end(second)
    if second.returncode:
        raise Failed(f"the second start ended with {second.returncode}")
    numbers = sorted(int(record.value or b"") for record in client.records("out"))
    if numbers != list(range(RECORDS)):
        raise Failed(f"{len(numbers)} records, {len(set(numbers))} of them different; expected {RECORDS}")
    return "ok"


def _wait(run: Run, process: subprocess.Popen[str], is_done: Any) -> None:
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
    (cache_dir() / "spark-matrix").mkdir(parents=True, exist_ok=True)
    results = results_on(TARGET.read_text())
    for minor in given.version or RELEASES:
        for way in given.way or WAYS:
            release = RELEASES[minor]
            began_s = time.monotonic()
            try:
                result = run_cell(release, way)
            except Failed as failed:
                result = "fails"
                print(f"{release.version} {way}: {failed}", flush=True)
            results[f"{release.version} {way}"] = result
            TARGET.write_text(rewritten(TARGET.read_text(), results))
            print(f"{release.version} {way}: {result} ({time.monotonic() - began_s:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
