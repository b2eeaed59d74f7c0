"""Converts the variables of Kafka's images to settings, and starts a broker with them.

In the image, the scripts of ``container/`` have the paths of scripts of apache/kafka and confluentinc/cp-kafka, and call this
module. Programs for Kafka's images (Testcontainers, compose files, CI services) can therefore start this image
(docs/containers.md).
"""

from __future__ import annotations

import os
import socket
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from ottla.addresses import port
from ottla.arguments import BadArgument
from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.first_user import FirstUser
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.config.sources import LONG_PREFIX, PREFIX, from_environment, load, read_file
from ottla.broker.loop.env import random_uuid
from ottla.container.scram_users import BadScramUser, scram_users, users_file, write_users
from ottla.container.secrets import with_secrets
from ottla.container.volumes import DATA_DIRECTORY, log_directory, mount_points
from ottla.process import print_error
from ottla.protocol.uuids import uuid_text
from ottla.storage.checkpoints import RECOVERY_POINTS, write_offsets
from ottla.storage.filesystem import Filesystem, described
from ottla.storage.identity import DirectoryError, identify, read_identity
from ottla.storage.log_dir import LOCK_FILE
from ottla.storage.real_filesystem import RealFilesystem

MOUNTED_PROPERTIES: Final = Path("/mnt/shared/config/server.properties")
"""The path at which apache/kafka reads a file of settings."""
_REGISTRY_PORT: Final = "KAFKA_OTTLA_SCHEMA_REGISTRY_PORT"
_REGISTRY_HOST: Final = "KAFKA_OTTLA_SCHEMA_REGISTRY_HOST"
LISTENERS: Final = "PLAINTEXT://0.0.0.0:9092"
ADVERTISED_LISTENERS: Final = "PLAINTEXT://localhost:9092"
"""Default advertised listener, as in apache/kafka. Clients on the container's host can connect if port 9092 is published."""
STARTED_LINES: Final = (
    "INFO [BrokerLifecycleManager id={node_id}] The broker has been unfenced. Transitioning from RECOVERY to RUNNING."
    " (kafka.server.BrokerLifecycleManager)",
    "INFO [KafkaRaftServer nodeId={node_id}] Kafka Server started (kafka.server.KafkaRaftServer)",
    "INFO [KafkaServer id={node_id}] started (kafka.server.KafkaServer)",
)
"""Lines that Kafka logs when it has started: two lines of a broker with KRaft, one of a broker with ZooKeeper. Libraries that start
Kafka's images wait for one of these lines."""
MAX_CLUSTER_ID_CHARACTERS: Final = 64
ZOOKEEPER_PORT: Final = "2181"
STORAGE_USAGE: Final = (
    "kafka-storage random-uuid, or kafka-storage format [--ignore-formatted] -t CLUSTER_ID [-c FILE] [--add-scram USER]"
)


class ContainerRefused(Exception):
    """The container cannot execute a command."""


def prepared(environment: Mapping[str, str], properties: Mapping[str, str], data_directory: str = DATA_DIRECTORY) -> dict[str, str]:
    """Return the environment for ``ottla serve``, with the image's defaults for unset listeners and directory.

    As in Kafka's images, unset listeners are derived from advertised listeners. A controller's listeners must be set.
    """
    environment = with_secrets(_with_kafkas_names(environment))
    prepared = dict(environment)
    for name in ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"):
        # Ignore empty elements, because scripts that join lists may leave a comma at the end.
        elements = [element for element in (part.strip() for part in environment.get(name, "").split(",")) if element]
        prepared.pop(name, None)
        if elements:
            prepared[name] = ",".join(elements)
    is_controller = (environment.get("KAFKA_PROCESS_ROLES") or properties.get("process.roles", "")).strip() == "controller"
    if not is_controller and "KAFKA_LISTENERS" not in prepared and "listeners" not in properties:
        advertised = prepared.get("KAFKA_ADVERTISED_LISTENERS")
        prepared["KAFKA_LISTENERS"] = LISTENERS if advertised is None else _on_every_interface(advertised)
        if advertised is None and "advertised.listeners" not in properties:
            prepared["KAFKA_ADVERTISED_LISTENERS"] = ADVERTISED_LISTENERS
    if prepared.get(_REGISTRY_PORT):
        # The registry may listen on all interfaces: from outside of the container only published ports can be reached.
        prepared.setdefault(_REGISTRY_HOST, "0.0.0.0")
    if not has_log_directory(prepared, properties):
        prepared["KAFKA_LOG_DIRS"] = data_directory
    return prepared


def has_log_directory(environment: Mapping[str, str], properties: Mapping[str, str]) -> bool:
    return any(environment.get(name) for name in ("KAFKA_LOG_DIRS", "KAFKA_LOG_DIR")) or bool(
        {"log.dirs", "log.dir"} & {*properties}
    )


def _with_kafkas_names(environment: Mapping[str, str]) -> dict[str, str]:
    """Rename the variables of bitnami/kafka to those of apache/kafka. A variable with an unknown setting keeps its name."""
    renamed = dict(environment)
    for name in environment:
        if name.startswith(LONG_PREFIX) and from_environment({name: ""})[0]:
            renamed[PREFIX + name.removeprefix(LONG_PREFIX)] = renamed.pop(name)
    if "KAFKA_KRAFT_CLUSTER_ID" in environment:
        renamed.setdefault("CLUSTER_ID", environment["KAFKA_KRAFT_CLUSTER_ID"])
    return renamed


def _on_every_interface(advertised: str) -> str:
    listeners = []
    for element in advertised.split(","):
        name, _, address = element.partition("://")
        host, _, number = address.rpartition(":")
        # [::] accepts IPv4 and IPv6 clients. 0.0.0.0 also works on a machine without IPv6.
        listeners.append(f"{name}://{'[::]' if host.startswith('[') else '0.0.0.0'}:{number}")
    return ",".join(listeners)


def checked_cluster_id(text: str) -> str:
    """Check that a cluster id is printable ASCII without spaces. Raises `ContainerRefused`."""
    if not (text.isascii() and text.isprintable() and " " not in text and 0 < len(text) <= MAX_CLUSTER_ID_CHARACTERS):
        raise ContainerRefused(f"{text[:MAX_CLUSTER_ID_CHARACTERS]!r} is not a cluster id; kafka-storage random-uuid prints one")
    return text


def format_directory(
    fs: Filesystem, config: BrokerConfig, cluster_id: str, *, ignore_formatted: bool, users: Sequence[FirstUser] = ()
) -> str:
    """Format a new log directory for the cluster, like ``kafka-storage format``. Returns a message for people.

    A new directory gets ``users``; as in Kafka, a formatted directory keeps the users that it has. Raises `ContainerRefused`, also
    for a formatted directory, unless ``ignore_formatted`` is set.
    """
    path = config.settings.log_dirs
    lock: object | None = None
    try:
        fs.make_dir(path)
        lock = fs.lock(f"{path}/{LOCK_FILE}")
        if lock is None:
            raise ContainerRefused(f"{path} is in use by another broker")
        formatted = read_identity(fs, path)
        if formatted is None:
            # Write an empty recovery point checkpoint, because a start on a formatted directory without this file assumes that the
            # file was lost.
            write_offsets(fs, f"{path}/{RECOVERY_POINTS}", {})
            if users:
                # Sync the users before meta.properties exists, because a formatted directory gets no further users.
                write_users(fs, path, users)
            identify(fs, path, config.settings.node_id, random_uuid, cluster_id)
            return f"{path} is formatted for cluster {cluster_id}"
    except DirectoryError as error:
        raise ContainerRefused(str(error)) from None
    except OSError as error:
        raise ContainerRefused(f"cannot use {path}: {described(error)}") from None
    finally:
        fs.unlock(lock)
    if not ignore_formatted:
        raise ContainerRefused(f"{path} is already formatted; give --ignore-formatted to keep it")
    kept = "" if formatted.cluster_id == cluster_id else f", not {cluster_id}"
    return f"{path} keeps its cluster {formatted.cluster_id}{kept}"


def launch(environment: Mapping[str, str], mounted: Path = MOUNTED_PROPERTIES) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the environment for ``ottla``. A new directory is formatted for the cluster id in ``CLUSTER_ID``.

    Raises `ContainerRefused` and `ConfigError`.
    """
    file = mounted if mounted.exists() else None
    properties = {} if file is None else read_file(file)
    chosen = log_directory(mount_points())
    serving = prepared(environment, properties, chosen.path)
    config, _ = load(file, serving, [], {})
    if not has_log_directory(_with_kafkas_names(environment), properties):
        for line in chosen.lines:
            print(line, flush=True)
    cluster_id = serving.get("CLUSTER_ID")
    if cluster_id:
        said = format_directory(RealFilesystem(), config, checked_cluster_id(cluster_id), ignore_formatted=True)
        print(said, flush=True)
    arguments = ["serve"] if file is None else ["serve", str(file)]
    # Only the controller creates users. Kafka's brokers ignore users of their directories, too.
    if not config.settings.is_member and (users := users_file(config.settings.log_dirs)):
        arguments += ["--users-file", str(users), "--remove-users-file"]
    # Libraries such as Testcontainers, which start only brokers, wait for these lines of Kafka's log. Controllers do not print
    # them.
    for line in STARTED_LINES if "broker" in config.settings.process_roles else ():
        arguments += ["--started-line", line.format(node_id=config.settings.node_id)]
    return arguments, serving


def storage(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Carry out ``kafka-storage``, and return its output. Options for a quorum of controllers have no effect. Raises the errors of
    `launch`, and `BadScramUser`."""
    if [*arguments] == ["random-uuid"]:
        return uuid_text(random_uuid())
    if not arguments or arguments[0] != "format":
        raise ContainerRefused(f"unknown arguments: {' '.join(arguments) or '(none)'}; use {STORAGE_USAGE}")
    given = _options(arguments[1:])
    users = scram_users(given["--add-scram"] + given["-S"])
    cluster_id = (given["--cluster-id"] + given["-t"] + [""])[0]
    if not cluster_id:
        raise ContainerRefused(f"the cluster id is missing; use {STORAGE_USAGE}")
    # Kafka's images write the settings file from the environment. Here the file exists only if it was mounted.
    file = Path((given["--config"] + given["-c"] + [str(MOUNTED_PROPERTIES)])[0])
    properties = read_file(file) if file.exists() else {}
    serving = prepared(environment, properties, log_directory(mount_points()).path)
    config, _ = load(file if properties else None, serving, [], {})
    ignore = "--ignore-formatted" in given or "-g" in given
    return format_directory(RealFilesystem(), config, checked_cluster_id(cluster_id), ignore_formatted=ignore, users=users)


_FLAGS: Final = frozenset({"--ignore-formatted", "-g", "--standalone", "-s", "--no-initial-controllers", "-N"})


def _options(arguments: Sequence[str]) -> defaultdict[str, list[str]]:
    """Return the values of each given option."""
    options = defaultdict[str, list[str]](list)
    remaining = list(arguments)
    while remaining:
        name, equals, value = remaining.pop(0).partition("=")
        if not name.startswith("-"):
            raise ContainerRefused(f"unknown option {name!r}; use {STORAGE_USAGE}")
        if name not in _FLAGS and not equals:
            if not remaining:
                raise ContainerRefused(f"{name} needs a value; use {STORAGE_USAGE}")
            value = remaining.pop(0)
        options[name].append(value)
    return options


def zookeeper_port(file: Path) -> int:
    """Return the client port in a properties file of ZooKeeper. Raises `ContainerRefused` and `ConfigError`."""
    text = read_file(file).get("clientPort", ZOOKEEPER_PORT)
    try:
        return port(text)
    except BadArgument as error:
        raise ContainerRefused(f"{file}: clientPort {error}") from None


def hold_port(number: int) -> NoReturn:
    """Accept connections and close them, for scripts that wait until ZooKeeper's port is open. Raises `ContainerRefused`."""
    try:
        server = socket.create_server(("", number))
    except OSError as error:
        raise ContainerRefused(f"cannot listen on port {number}: {error.strerror}") from None
    print(f"zookeeper-server-start: the broker needs no ZooKeeper; port {number} accepts connections and closes them", flush=True)
    while True:
        connection, _ = server.accept()
        connection.close()


def main(arguments: Sequence[str]) -> int:
    what, *rest = arguments or [""]
    try:
        if what == "launch":
            serve, environment = launch(os.environ)
        elif what == "kafka-storage":
            print(storage(rest, os.environ))
            return 0
        elif what == "zookeeper-server-start" and rest:
            hold_port(zookeeper_port(Path(rest[-1])))
        else:
            raise ContainerRefused("no command was given; use launch, kafka-storage ARGUMENTS or zookeeper-server-start FILE")
    except (ContainerRefused, BadScramUser, ConfigError) as error:
        print_error(f"{what if rest else 'ottla'}: {error}")
        return 1
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["ottla", *serve]
    from ottla.__main__ import main as run

    return run()
