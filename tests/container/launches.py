"""How libraries start Kafka's images: environment, start script, and the log line that the library waits for.

Each launch corresponds to a row of docs/containers.md, and reproduces the library's steps in our own words.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

KRAFT = r".*Transitioning from RECOVERY to RUNNING.*"
KRAFT_SERVER = r".*Kafka Server started.*"
ZOOKEEPER = r".*\[KafkaServer id=\d+\] started.*"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"

ONE_BROKER = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
WITH_CONTROLLER = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}
PROTOCOLS = "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
ON_9093 = "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092"
CONTROLLER = ",CONTROLLER://0.0.0.0:9094"


class Where(msgspec.Struct, frozen=True):
    """Facts that a library knows when it writes its start script."""

    mapped_port: int
    hostname: str


class Launch(msgspec.Struct, frozen=True):
    """One way to start a container of Kafka.

    ``runs_by`` is the shell that runs the script; if it is empty, the script is executed directly. ``waiting`` is printed before
    the script exists.
    """

    name: str
    port: int
    environment: dict[str, str]
    script_path: str
    script: Callable[[Where], list[str]]
    waits_for: str
    runs_by: str = ""
    replaces_entrypoint: bool = False
    script_mode: int = 0o777
    waiting: str = ""
    cluster_id: str | None = CLUSTER_ID
    waits_for_ports: tuple[int, ...] = ()
    """Ports that the library probes with commands inside the container."""

    @property
    def entrypoint(self) -> list[str] | None:
        return ["sh"] if self.replaces_entrypoint else None

    @property
    def command(self) -> list[str]:
        said = f"echo '{self.waiting}'; " if self.waiting else ""
        run = f"{self.runs_by} {self.script_path}".strip()
        shell = ["-c", f"{said}while [ ! -f {self.script_path} ]; do sleep 0.1; done; {run}"]
        return shell if self.replaces_entrypoint else ["sh", *shell]


def advertised(broker: str = "{where.hostname}:9092", *, quoted: bool = False) -> Callable[[Where], str]:
    def line(where: Where) -> str:
        listeners = f"PLAINTEXT://localhost:{where.mapped_port},BROKER://{broker.format(where=where)}"
        return f'export KAFKA_ADVERTISED_LISTENERS="{listeners}"' if quoted else f"export KAFKA_ADVERTISED_LISTENERS={listeners}"

    return line


def zookeeper_first(file: str = "zookeeper.properties") -> list[str]:
    return [
        f"echo 'clientPort=2181' > {file}",
        f"echo 'dataDir=/var/lib/zookeeper/data' >> {file}",
        f"zookeeper-server-start {file} &",
    ]


def formatted(cluster_id: str) -> list[str]:
    """Return commands that edit the image's own steps: they remove the ZooKeeper setting and format the log directory."""
    configure = "/etc/confluent/docker/configure"
    return [
        f"sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' {configure}",
        f"echo 'kafka-storage format --ignore-formatted -t {cluster_id} -c /etc/kafka/kafka.properties' >> {configure}",
    ]


NO_CHECKS = "echo '' > /etc/confluent/docker/ensure"
STEP_BY_STEP = ["/etc/confluent/docker/configure", "/etc/confluent/docker/launch"]
JAVA = {
    **ONE_BROKER,
    **WITH_CONTROLLER,
    "CLUSTER_ID": CLUSTER_ID,
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{PROTOCOLS},CONTROLLER:PLAINTEXT",
}
OLDER = {
    **ONE_BROKER,
    "KAFKA_BROKER_ID": "1",
    "KAFKA_LISTENERS": ON_9093,
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": PROTOCOLS,
}
OLDER_KRAFT = {
    **OLDER,
    **WITH_CONTROLLER,
    "CLUSTER_ID": CLUSTER_ID,
    "KAFKA_LISTENERS": ON_9093 + CONTROLLER,
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{PROTOCOLS},CONTROLLER:PLAINTEXT",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
}

LAUNCHES = (
    Launch(
        name="java apache",
        port=9092,
        environment=JAVA,
        script_path="/tmp/testcontainers_start.sh",
        script=lambda where: ["#!/bin/bash", advertised("{where.hostname}:9093")(where), "/etc/kafka/docker/run "],
        waits_for=KRAFT,
    ),
    Launch(
        name="java confluent",
        port=9092,
        environment=JAVA,
        script_path="/tmp/testcontainers_start.sh",
        script=lambda where: ["#!/bin/bash", advertised("{where.hostname}:9093")(where), "/etc/confluent/docker/run "],
        waits_for=KRAFT,
    ),
    Launch(
        name="java containers.KafkaContainer kraft",
        port=9093,
        environment=OLDER_KRAFT,
        script_path="/testcontainers_start.sh",
        script=lambda where: [
            "#!/bin/bash",
            advertised()(where),
            NO_CHECKS,
            *formatted(f'"{CLUSTER_ID}"'),
            "/etc/confluent/docker/run ",
        ],
        waits_for=KRAFT,
        replaces_entrypoint=True,
    ),
    Launch(
        name="java containers.KafkaContainer zookeeper",
        port=9093,
        environment={**OLDER, "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"},
        script_path="/tmp/testcontainers_start.sh",
        script=lambda where: [
            "#!/bin/bash",
            advertised()(where),
            NO_CHECKS,
            *zookeeper_first("/tmp/zookeeper.properties"),
            "/etc/confluent/docker/run ",
        ],
        waits_for=ZOOKEEPER,
        replaces_entrypoint=True,
        cluster_id=None,
    ),
    Launch(
        name="python kraft",
        port=9093,
        environment={**OLDER_KRAFT, "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk"},
        script_path="/tc-start.sh",
        script=lambda where: [
            "#!/bin/bash",
            *formatted("MkU3OEVBNTcwNTJENDM2Qk"),
            advertised("$(hostname -i):9092")(where),
            ". /etc/confluent/docker/bash-config",
            *STEP_BY_STEP,
        ],
        waits_for=KRAFT_SERVER,
        runs_by="sh",
        script_mode=0o644,
        cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
    ),
    Launch(
        name="python zookeeper",
        port=9093,
        environment=OLDER,
        script_path="/tc-start.sh",
        script=lambda where: [
            "#!/bin/bash",
            *zookeeper_first(),
            "export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'",
            advertised("$(hostname -i | cut -d' ' -f1):9092")(where),
            ". /etc/confluent/docker/bash-config",
            *STEP_BY_STEP,
        ],
        waits_for=ZOOKEEPER,
        runs_by="sh",
        script_mode=0o644,
        cluster_id=None,
    ),
    Launch(
        name="go",
        port=9093,
        environment={
            **{name: value for name, value in OLDER_KRAFT.items() if name != "CLUSTER_ID"},
            "KAFKA_REST_BOOTSTRAP_SERVERS": ON_9093 + CONTROLLER,
        },
        script_path="/usr/sbin/testcontainers_start.sh",
        script=lambda where: [
            "#!/bin/bash",
            "source /etc/confluent/docker/bash-config",
            advertised(quoted=True)(where).removesuffix('"') + '${EXTRA_ADVERTISED_LISTENERS:+,${EXTRA_ADVERTISED_LISTENERS}}"',
            "echo Starting Kafka KRaft mode",
            *formatted('"$(kafka-storage random-uuid)"'),
            NO_CHECKS,
            *STEP_BY_STEP,
        ],
        waits_for=KRAFT,
        runs_by="bash",
        replaces_entrypoint=True,
        script_mode=0o755,
        cluster_id=None,
    ),
    Launch(
        name="node kraft",
        port=9093,
        environment={**OLDER_KRAFT, "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false"},
        script_path="/tmp/testcontainers_start.sh",
        script=lambda where: ["#!/bin/bash", advertised()(where), "/etc/confluent/docker/run "],
        waits_for=KRAFT,
        replaces_entrypoint=True,
        waiting="Waiting for script...",
    ),
    Launch(
        name="node zookeeper",
        port=9093,
        environment={**OLDER, "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"},
        script_path="/tmp/testcontainers_start.sh",
        script=lambda where: [
            "#!/bin/bash",
            advertised()(where),
            NO_CHECKS,
            *zookeeper_first(),
            "/etc/confluent/docker/run ",
        ],
        waits_for=ZOOKEEPER,
        replaces_entrypoint=True,
        waiting="Waiting for script...",
        cluster_id=None,
        waits_for_ports=(2181, 9093),
    ),
    Launch(
        name="dotnet zookeeper",
        port=9092,
        environment={
            **OLDER,
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093",
            "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
        },
        script_path="/testcontainers.sh",
        script=lambda where: [
            "#!/bin/bash",
            *zookeeper_first(),
            advertised("{where.hostname}:9093")(where) + ",",
            NO_CHECKS,
            "exec /etc/confluent/docker/run",
        ],
        waits_for=ZOOKEEPER,
        script_mode=0o755,
        replaces_entrypoint=True,
        cluster_id=None,
    ),
)
