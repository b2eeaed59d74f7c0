"""Runs several Apache Kafka brokers and their controller, each in its own process. Some of the nodes may be nodes of ottla.

`SeveralBrokers` is the common interface of `ApacheKafkas` and `ottla.Cluster` for tests.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeVar

from ottla.broker.loop.env import random_uuid
from ottla.brokers.plan import defaults
from ottla.control.faults.remote_faults import RemoteFault
from ottla.control.remote import ControlError
from ottla.protocol.uuids import uuid_text
from ottla.testing.cluster_handle import CONTROLLER
from ottla.testing.cluster_queries import Questions, wait_for
from tools.kafka import ORACLE_VERSION, QUICK_JVM, ApacheKafka, Jvm, free_port
from tools.ottla_node import OttlaNode

T = TypeVar("T")

CHANGE_TIMEOUT_S = 60.0


class SeveralBrokers(Protocol):
    """Brokers and their controller, of ottla or of Apache Kafka. `ottla.Cluster` documents each method."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def brokers(self) -> list[int]: ...

    def address(self, broker: int) -> str: ...

    def pid(self, broker: int) -> int: ...

    def close(self) -> None: ...

    def kill(self, broker: int) -> None: ...

    def shut_down(self, broker: int) -> None: ...

    def pause(self, broker: int) -> None: ...

    def resume(self, broker: int) -> None: ...

    def restart(self, broker: int, *, kill: bool = False) -> None: ...

    def heal(self) -> None: ...

    def in_service(self) -> list[int]: ...

    def leader(self, topic: str, partition: int = 0) -> int | None: ...

    def in_sync(self, topic: str, partition: int = 0) -> list[int]: ...

    def coordinator(self, *, transactional_id: str | None = None, group: str | None = None) -> int: ...

    def move_leader(self, topic: str, partition: int, to: int) -> None: ...

    def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None, *, replication_factor: int = -1
    ) -> None: ...

    def wait_for(self, condition: Callable[[], T], timeout_s: float = ...) -> T: ...


class ApacheKafkas:
    """Apache Kafka brokers with the ids 1, 2, 3 and so on, and their controller (`CONTROLLER`).

    ``settings`` apply to all processes; ``settings_of`` has further settings by node id, such as ``broker.rack``. The nodes in
    ``ottla_nodes``, brokers or the controller, run ottla. Nodes connect to each other by the security protocol ``between``,
    by default PLAINTEXT. ``users`` are the passwords of users (SCRAM-SHA-512) that the controller creates. A process that is still
    paused is killed at the end.
    """

    def __init__(
        self,
        data_dir: str | Path,
        brokers: int = 3,
        *,
        settings: Mapping[str, str | int | bool] | None = None,
        settings_of: Mapping[int, Mapping[str, str]] | None = None,
        ottla_nodes: Collection[int] = (),
        heap: str = "256M",
        jvm: Jvm = QUICK_JVM,
        version: str = ORACLE_VERSION,
        between: str | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        shared = defaults(brokers) | {key: _text(value) for key, value in (settings or {}).items()}
        if between is not None:
            shared["listener.security.protocol.map"] = f"PLAINTEXT:PLAINTEXT,{between}:{between},CONTROLLER:{between}"
        self._secured: dict[int, int] = {}
        own = settings_of or {}
        directory = Path(data_dir)

        def node(node_id: int, name: str, under: tuple[str, str] | None) -> ApacheKafka | OttlaNode:
            configured, listeners = shared | dict(own.get(node_id, {})), dict[str, int]()
            if between is not None and under is not None:
                listeners[between] = self._secured[node_id] = free_port()
                configured["inter.broker.listener.name"] = between
            if node_id in ottla_nodes:
                own_users = users if under is None else None
                return OttlaNode(
                    directory / name, node_id=node_id, settings=configured, under=under, listeners=listeners, users=own_users
                )
            return ApacheKafka(
                directory / name,
                settings=configured,
                heap=heap,
                jvm=jvm,
                version=version,
                node_id=node_id,
                under=under,
                is_controller=under is None,
                listeners=listeners,
                format_arguments=("--standalone", *_credentials(users or {})),
            )

        controller = node(CONTROLLER, "controller", None)
        host, port = controller.controller
        self.cluster_id = controller.cluster_id
        self.quorum_voters = f"{CONTROLLER}@{host}:{port}"
        self._nodes: dict[int, ApacheKafka | OttlaNode] = {CONTROLLER: controller}
        for broker in range(1, brokers + 1):
            self._nodes[broker] = node(broker, f"broker-{broker}", (self.cluster_id, self.quorum_voters))
        self._running: set[int] = set()
        self._paused: set[int] = set()
        self._partitioned: dict[int, RemoteFault] = {}
        self._questions = Questions(self._answering)

    @property
    def brokers(self) -> list[int]:
        return [node for node in self._nodes if node != CONTROLLER]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, even of stopped brokers."""
        return ",".join(map(self.address, self.brokers))

    def _answering(self) -> str:
        able = [broker for broker in self.brokers if broker in self._running - self._paused]
        return ",".join(map(self.address, able)) or self.bootstrap

    def address(self, broker: int) -> str:
        return self._nodes[broker].bootstrap

    def secured(self, broker: int) -> str:
        """Return the address of a broker's listener with the security protocol ``between``."""
        return f"127.0.0.1:{self._secured[broker]}"

    def node(self, broker: int) -> ApacheKafka | OttlaNode:
        return self._nodes[broker]

    def pid(self, broker: int) -> int:
        pid = self._nodes[broker].pid
        if pid is None:
            raise ValueError(f"node {broker} is not running")
        return pid

    def log_dir(self, broker: int) -> Path:
        return self._nodes[broker].log_dir

    def is_ottla(self, broker: int) -> bool:
        return isinstance(self._nodes[broker], OttlaNode)

    @property
    def logs(self) -> list[str]:
        return [line for node in self._nodes.values() if isinstance(node, OttlaNode) for line in node.logs]

    # start and stop

    def start(self) -> Self:
        """Start all processes at the same time, and wait until all brokers are unfenced. Raises `Unavailable`."""
        try:
            for broker in self.brokers:
                node = self._nodes[broker]
                if isinstance(node, ApacheKafka):
                    _format(node, broker)
            for node in self._nodes.values():
                node.launch()
            for node_id, node in self._nodes.items():
                node.wait_until_up()
                self._running.add(node_id)
            self.wait_for(lambda: self.in_service() == self.brokers, CHANGE_TIMEOUT_S)
        except BaseException:
            self._kill_all()
            raise
        return self

    def stop(self) -> int:
        """Stop all brokers, then the controller, without which brokers cannot shut down. Returns the first exit code other than
        0."""
        if self._paused:
            self._kill_all()
            return 0
        with ThreadPoolExecutor(len(self._nodes)) as threads:
            list(threads.map(lambda broker: self._nodes[broker].stop(), self.brokers))
        self._nodes[CONTROLLER].stop()
        self._running.clear()
        codes = [node.exit_code for node in self._nodes.values() if isinstance(node, OttlaNode)]
        return next((code for code in codes if code), 0)

    def close(self) -> None:
        """Kill all processes. Their data is no longer needed."""
        self._kill_all()

    def _kill_all(self) -> None:
        for node in self._nodes.values():
            node.kill()
        self._running.clear()
        self._paused.clear()

    # failures of single brokers

    def kill(self, broker: int) -> None:
        self._nodes[broker].kill()
        self._running.discard(broker)
        self._paused.discard(broker)

    def shut_down(self, broker: int) -> None:
        self._nodes[broker].stop()
        self._running.discard(broker)

    def pause(self, broker: int) -> None:
        os.kill(self.pid(broker), signal.SIGSTOP)
        self._paused.add(broker)

    def resume(self, broker: int) -> None:
        os.kill(self.pid(broker), signal.SIGCONT)
        self._paused.discard(broker)

    def partition(self, broker: int) -> None:
        """Reject requests of other brokers to a broker of ottla until `heal`; see `ottla.Cluster.partition`."""
        node = self._nodes[broker]
        if not isinstance(node, OttlaNode):
            raise ValueError(f"broker {broker} is of Apache Kafka, which has no faults on demand")
        if broker not in self._partitioned:
            self._partitioned[broker] = node.faults().add(client_id="broker-*", cut="before", times=None)

    def restart(self, broker: int, *, kill: bool = False) -> None:
        if broker in self._running:
            if kill:
                self.kill(broker)
            else:
                self.shut_down(broker)
        self._nodes[broker].start()
        self._running.add(broker)

    def heal(self) -> None:
        for node in sorted(self._paused):
            self.resume(node)
        for node in sorted(self._partitioned):
            partition = self._partitioned.pop(node)
            # A broker that has just ended has no faults to remove.
            with suppress(ControlError):
                partition.remove()
        for node in self._nodes:
            if node not in self._running:
                self.restart(node)
        self.wait_for(lambda: self.in_service() == self.brokers, CHANGE_TIMEOUT_S)

    # leaders and coordinators

    def in_service(self) -> list[int]:
        return sorted(self._questions.in_service())

    def leader(self, topic: str, partition: int = 0) -> int | None:
        return self._questions.leader(topic, partition)

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        return self._questions.in_sync(topic, partition)

    def coordinator(self, *, transactional_id: str | None = None, group: str | None = None) -> int:
        return self._questions.coordinator(transactional_id=transactional_id, group=group)

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        self._questions.move_leader(topic, partition, to)
        self.wait_for(lambda: self.leader(topic, partition) == to, CHANGE_TIMEOUT_S)

    def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None, *, replication_factor: int = -1
    ) -> None:
        self._questions.create_topic(name, partitions, configs, replication_factor=replication_factor)

    def wait_for(self, condition: Callable[[], T], timeout_s: float = CHANGE_TIMEOUT_S) -> T:
        return wait_for(condition, timeout_s)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _credentials(users: Mapping[str, str]) -> list[str]:
    """Return options of ``kafka-storage format`` that create users."""
    return [
        argument
        for user, password in users.items()
        for argument in ("--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]")
    ]


def _format(node: ApacheKafka, node_id: int) -> None:
    """Format a broker's directory like ``kafka-storage format``, but without a start of Java, which takes a second."""
    meta = node.log_dir / "meta.properties"
    if not meta.exists():
        node.log_dir.mkdir(parents=True)
        directory_id = uuid_text(random_uuid())
        meta.write_text(f"version=1\ncluster.id={node.cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n")
