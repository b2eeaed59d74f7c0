"""Kafka's command line tools in the image, for the calls of health checks and of containers that create topics.

Each name in `ottla.container.links` calls `main`, which runs the equivalent ottla command, and prints its result in Kafka's format,
because scripts search the output with grep and awk. An unsupported call fails with one line that names the ottla command.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, Final

from ottla import __version__
from ottla.addresses import Address, bootstrap_addresses
from ottla.arguments import BadArgument
from ottla.container.ports import NC_USAGE, PortClosed, nc, wait_for_port
from ottla.process import print_error

TIMEOUT_S: Final = 60
"""Time to wait for brokers, in seconds: ``default.api.timeout.ms`` of Kafka's admin client. Some containers run ``kafka-topics
--list`` to wait for a broker."""
POLL_S: Final = 0.5
"""Time between two counts of the brokers, in seconds."""
CLIENT_OPTIONS: Final = ("--bootstrap-server", "--command-config")
INSTEAD: Final = {
    "cub": "ottla health",
    "kafka-acls": "ottla acl",
    "kafka-broker-api-versions": "ottla cluster",
    "kafka-cluster": "ottla cluster",
    "kafka-configs": "ottla config",
    "kafka-console-consumer": "ottla consume TOPIC",
    "kafka-console-producer": "ottla produce TOPIC",
    "kafka-consumer-groups": "ottla group",
    "kafka-delete-records": "ottla record delete",
    "kafka-dump-log": "ottla dump",
    "kafka-features": "ottla cluster",
    "kafka-get-offsets": "ottla topic describe TOPIC",
    "kafka-groups": "ottla group list",
    "kafka-leader-election": "ottla topic elect",
    "kafka-log-dirs": "ottla cluster",
    "kafka-metadata-quorum": "ottla cluster",
    "kafka-server-start": "/etc/kafka/docker/run, or ottla serve",
    "kafka-server-stop": "SIGTERM to the container's process 1",
    "kafka-share-groups": "ottla group",
    "kafka-streams-groups": "ottla group",
    "kafka-topics": "ottla topic",
    "kafka-transactions": "ottla txn",
    "nc": NC_USAGE,
    "ub": "ottla health",
}
"""The command that the error for an unsupported call suggests, by tool."""


class NotSupported(Exception):
    """The tool does not support the call. The message names the unsupported or missing argument."""


class Failed(Exception):
    """The tool failed. The message is one line for a person; it is empty if the ottla command has already printed the error."""


def main(name: str, arguments: Sequence[str]) -> int:
    """Run a tool and return its exit code: 1 after a failure, because Docker reserves exit code 2 of health checks."""
    try:
        tool = _TOOLS.get(name)
        if tool is None:
            raise NotSupported(f"the image has no {name}" if name not in INSTEAD else "the tool is not supported")
        for line in tool(list(arguments)):
            print(line)
    except NotSupported as reason:
        print_error(f"{name}: {reason}; use {INSTEAD.get(name, 'ottla --help')}")
        return 1
    except (Failed, PortClosed) as failure:
        if str(failure):
            print_error(f"{name}: {failure}")
        return 1
    return 0


class _Call:
    """The parsed arguments of a call: flags, options with values, other words."""

    def __init__(self, arguments: Sequence[str], flags: Sequence[str], values: Sequence[str]) -> None:
        """Parse ``--name value``, ``--name=value`` and flags. Raises `NotSupported` for an unknown option."""
        self.flags: set[str] = set()
        self.values: dict[str, list[str]] = {}
        self.words: list[str] = []
        remaining = list(arguments)
        while remaining:
            name, equals, value = remaining.pop(0).partition("=")
            if not name.startswith("-"):
                self.words.append(name + equals + value)
            elif name in flags and not equals:
                self.flags.add(name)
            elif name not in values:
                raise NotSupported(f"{name} is not supported")
            elif not equals and not remaining:
                raise NotSupported(f"{name} needs a value")
            else:
                self.values.setdefault(name, []).append(value if equals else remaining.pop(0))

    def one(self, *names: str) -> str | None:
        """Return the last value of an option that has several names."""
        given = [value for name in names for value in self.values.get(name, ())]
        return given[-1] if given else None


def _ottla(call: _Call, *command: str, timeout_s: float | None = None) -> Any:
    """Run an ottla command with the call's ``--bootstrap-server``, and return its JSON output. Raises `Failed` if the command has
    printed an error."""
    from ottla.cli import main as run

    bootstrap = call.one("--bootstrap-server", "-b")
    if bootstrap is None:
        raise NotSupported("--bootstrap-server is missing")
    config = call.one("--command-config", "--config", "-c")
    wait_s = TIMEOUT_S if timeout_s is None else timeout_s
    options = ["--bootstrap", bootstrap, "--timeout-s", f"{wait_s:g}", "--json"]
    if config is not None:
        options += ["--command-config", config]
    if config is None or Path(config).exists():
        with suppress(PortClosed):
            # Wait as Kafka's tools do: the ottla command reports an error at once if no broker responds.
            wait_for_port(_addresses(bootstrap), wait_s)
    printed = io.StringIO()
    with redirect_stdout(printed):
        code = run([*command[:2], *options, *command[2:]])
    if code:
        raise Failed
    return json.loads(printed.getvalue())


def _addresses(text: str) -> list[Address]:
    try:
        return bootstrap_addresses(text)
    except BadArgument as error:
        raise Failed(str(error)) from None


def _topics(arguments: list[str]) -> list[str]:
    actions = {"--list": _list, "--create": _create, "--describe": _describe}
    flags = (*actions, "--if-not-exists", "--if-exists", "--exclude-internal", "--version")
    call = _Call(arguments, flags, (*CLIENT_OPTIONS, "--topic", "--partitions", "--replication-factor", "--config"))
    if call.words:
        raise NotSupported(f"{call.words[0]!r} is not an option")
    if "--version" in call.flags:
        return [f"ottla {__version__}"]
    wanted = [action for action in actions if action in call.flags]
    if len(wanted) != 1:
        raise NotSupported("give one of --list, --create and --describe")
    # This --config sets a config of the topic. `_ottla` would use its value as the file with credentials.
    configs = call.values.pop("--config", [])
    return actions[wanted[0]](call, configs)


def _list(call: _Call, configs: list[str]) -> list[str]:
    return _matching(call)


def _matching(call: _Call) -> list[str]:
    """Return the sorted names of the topics that match ``--topic``: a regular expression, or several separated by commas."""
    internal = () if "--exclude-internal" in call.flags else ("--internal",)
    names = sorted(topic["topic"] for topic in _ottla(call, "topic", "list", *internal))
    pattern = call.one("--topic")
    if pattern is None:
        return names
    try:
        expression = re.compile(pattern.strip().replace(",", "|"))
    except re.error as error:
        raise Failed(f"--topic {pattern!r} is not a regular expression: {error}") from None
    return [name for name in names if expression.fullmatch(name)]


def _create(call: _Call, configs: list[str]) -> list[str]:
    topic = call.one("--topic")
    if topic is None:
        raise NotSupported("--topic is missing")
    command = ["topic", "create"]
    for option in ("--partitions", "--replication-factor"):
        if (value := call.one(option)) is not None:
            command += [option, value]
    for config in configs:
        # As in Kafka, a list may be in brackets (TopicCommand.parseTopicConfigsToBeAdded).
        command += ["--config", config.replace("[", "").replace("]", "")]
    if "--if-not-exists" in call.flags:
        command.append("--if-missing")
    created = _ottla(call, *command, "--", topic)["created"]
    return [f"Created topic {topic}."] if created else []


def _describe(call: _Call, configs: list[str]) -> list[str]:
    names = _matching(call)
    topic = call.one("--topic")
    if topic is not None and not names and "--if-exists" not in call.flags:
        raise Failed(f"topic {topic!r} does not exist")
    return [line for name in names for line in _described(_ottla(call, "topic", "describe", "--", name))]


def _described(topic: dict[str, Any]) -> list[str]:
    from ottla.protocol.uuids import uuid_text

    name, partitions = topic["topic"], topic["partitions"]
    fields = [
        f"Topic: {name}",
        f"TopicId: {uuid_text(bytes.fromhex(topic['topic_id']))}",
        f"PartitionCount: {len(partitions)}",
        f"ReplicationFactor: {len(partitions[0]['replicas'])}",
        f"Configs: {','.join(f'{key}={value}' for key, value in topic['configs'].items())}",
    ]
    lines = ["\t".join(fields)]
    for p in partitions:
        leader = p["leader"] if p["leader"] >= 0 else "none"
        replicas, in_sync = (",".join(map(str, p[key])) for key in ("replicas", "in_sync"))
        lines.append(
            f"\tTopic: {name}\tPartition: {p['partition']}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {in_sync}"
            "\tElr: \tLastKnownElr: "
        )
    return lines


def _broker_api_versions(arguments: list[str]) -> list[str]:
    """Return the first line that Kafka prints for each broker, without the lines about versions of APIs."""
    call = _Call(arguments, (), CLIENT_OPTIONS)
    brokers = _ottla(call, "cluster")["brokers"]
    return [
        f"{b['host']}:{b['port']} (id: {b['id']} rack: {b['rack'] or 'null'} isFenced: {str(b['fenced']).lower()}) -> ("
        for b in brokers
    ]


def _cluster(arguments: list[str]) -> list[str]:
    call = _Call(arguments, (), (*CLIENT_OPTIONS, "--config", "-b", "-c"))
    if call.words != ["cluster-id"]:
        raise NotSupported("only cluster-id is supported")
    return [f"Cluster ID: {_ottla(call, 'cluster')['cluster_id']}"]


def _metadata_quorum(arguments: list[str]) -> list[str]:
    """Return the first two lines of the quorum's status. ottla has one controller and no quorum."""
    call = _Call(arguments, ("--status",), CLIENT_OPTIONS)
    if call.words != ["describe"] or "--status" not in call.flags:
        raise NotSupported("only describe --status is supported")
    described = _ottla(call, "cluster")
    if described["controller"] is None:
        raise Failed("the brokers cannot reach a controller")
    return [f"{'ClusterId:':<24}{described['cluster_id']}", f"{'LeaderId:':<24}{described['controller']['id']}"]


def _consumer_groups(arguments: list[str]) -> list[str]:
    call = _Call(arguments, ("--list",), CLIENT_OPTIONS)
    if call.words or not call.flags:
        raise NotSupported("only --list is supported")
    return [group["group"] for group in _ottla(call, "group", "list") if group["type"] in ("classic", "consumer")]


def _ready(arguments: list[str]) -> list[str]:
    """Carry out ``cub kafka-ready``, which waits for a number of brokers, or ``cub zk-ready``, which waits for a port."""
    call = _Call(arguments, (), ("-b", "--bootstrap-server", "--bootstrap-servers", "-c", "--config", "-s", "--security"))
    for value in call.values.pop("--bootstrap-servers", []):
        call.values.setdefault("-b", []).append(value)
    match call.words:
        case ["kafka-ready", count, timeout] if count.isdecimal() and _seconds(timeout):
            deadline = time.monotonic() + _seconds(timeout)
            while True:
                left_s = max(deadline - time.monotonic(), POLL_S)
                brokers = [b for b in _ottla(call, "cluster", timeout_s=left_s)["brokers"] if not b["fenced"]]
                if len(brokers) >= int(count):
                    return []
                if time.monotonic() >= deadline:
                    raise Failed(f"{len(brokers)} of {count} brokers are ready after {_seconds(timeout)} s")
                time.sleep(POLL_S)
        case ["zk-ready", address, timeout] if _seconds(timeout):
            wait_for_port(_addresses(address), _seconds(timeout))
            return []
        case _:
            raise NotSupported("only kafka-ready BROKERS TIMEOUT_S and zk-ready HOST:PORT TIMEOUT_S are supported")


def _seconds(text: str) -> int:
    """Parse a timeout in seconds, such as 60 or 60s. Returns 0 for an invalid text."""
    digits = text.removesuffix("s")
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


_TOOLS: Final[dict[str, Callable[[list[str]], list[str]]]] = {
    "cub": _ready,
    "kafka-broker-api-versions": _broker_api_versions,
    "kafka-cluster": _cluster,
    "kafka-consumer-groups": _consumer_groups,
    "kafka-metadata-quorum": _metadata_quorum,
    "kafka-topics": _topics,
    "nc": nc,
    "ub": _ready,
}
