"""``ottla serve``: runs one broker in the foreground."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.arguments import BadArgument
from ottla.broker.config.first_topic import FirstTopic
from ottla.broker.config.first_user import FirstUser
from ottla.cli.commands import Refused
from ottla.cli.features import feature_levels
from ottla.cli.first_topics import first_topic, from_environment
from ottla.cli.first_users import check_names, first_user, users_of_file
from ottla.cli.imports import import_packages
from ottla.cli.optional_parts import MACHINE, Start, optional_parts, with_still_defaults
from ottla.cli.options import DEFAULT_BOOTSTRAP, LISTENER, PATH, PORT, READY_FILE_VARIABLE, Checked
from ottla.process import OwnerProcess

if TYPE_CHECKING:
    from ottla.broker.config.settings import BrokerConfig, Settings

HELP = """Run a broker in the foreground until SIGTERM or Ctrl-C; exit with 0.

Once the broker answers requests, it prints one JSON line on stdout with the address for clients ("bootstrap"), its
listeners, process id and data directory; on a terminal it prints text. Log lines go to stderr."""

EPILOG = """Settings are Kafka's server.properties keys. Later sources take precedence: the file, KAFKA_* variables by the rule of
Kafka's image (KAFKA_NUM_PARTITIONS=3 is num.partitions=3), --set, the other flags. An unknown key is refused with a
suggestion. A warning names unknown KAFKA_* variables, and keys of Kafka that have no effect in ottla.

Topics of --topic and of KAFKA_CREATE_TOPICS (NAME:PARTITIONS:REPLICATION[:CLEANUP],...) are created before the first request is
answered; existing topics are not changed."""

REGISTRY_PORT = 8081
"""The port of Confluent's registry, to which its clients connect by default."""
LOG_FORMATS = ("auto", "json", "console")
LOG_LEVELS = ("debug", "info", "warning", "error")


@click.command("serve", help=HELP, epilog=EPILOG)
@click.argument("properties", required=False, type=PATH, metavar="[FILE]")
@click.option(
    "--listen",
    type=LISTENER,
    metavar="HOST:PORT",
    help=f"Address to listen on; port 0 chooses a free port (default: {DEFAULT_BOOTSTRAP}).",
)
@click.option("--data-dir", metavar="DIR", help="Data directory (default: .ottla/data).")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of server.properties; repeatable.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=Checked("topic", first_topic),
    metavar="NAME:PARTITIONS[:KEY=VALUE]",
    help="Topic to create at the start, with its configuration; repeatable.",
)
@click.option(
    "--user",
    "users",
    multiple=True,
    type=Checked("user", first_user),
    metavar="NAME:PASSWORD",
    help="User of SASL SCRAM to create at the start; repeatable. Other users of the machine can see the password.",
)
@click.option(
    "--users-file",
    type=PATH,
    metavar="FILE",
    help="File with one NAME:PASSWORD per line, as for --user; lines that begin with # are comments.",
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="Feature level, e.g. transaction.version=1; repeatable.",
)
@click.option(
    "--metrics-port",
    type=PORT,
    metavar="PORT",
    help="Port of the Prometheus metrics on 127.0.0.1; with --brokers, consecutive ports (disabled by default).",
)
@click.option(
    "--control-port",
    type=PORT,
    metavar="PORT",
    help="Port of the HTTP control API on 127.0.0.1; with --brokers, consecutive ports (disabled by default).",
)
@click.option(
    "--console",
    "has_console",
    is_flag=True,
    help="Serve the web console on the control port; without --control-port, on a free port.",
)
@click.option(
    "--console-read-only",
    "is_read_only",
    is_flag=True,
    help="Serve a web console that cannot change anything.",
)
@click.option(
    "--schema-registry",
    "registry_port",
    type=PORT,
    is_flag=False,
    flag_value=str(REGISTRY_PORT),
    metavar="[PORT]",
    help=f"Serve a schema registry on 127.0.0.1; without =PORT on port {REGISTRY_PORT}; with --brokers, on the first broker.",
)
@click.option(
    "--clock",
    default=MACHINE,
    metavar="CLOCK",
    help="machine: the system clock. manual: a clock that only the control API advances. Default: machine.",
)
@click.option("--faults", "faults_file", type=PATH, metavar="FILE", help="File with faults to add at the start, in YAML or JSON.")
@click.option(
    "--brokers",
    "broker_count",
    type=int,
    metavar="N",
    help="Run a cluster of N brokers on consecutive ports, beginning with the port of --listen (default: one broker).",
)
@click.option(
    "--controller-port",
    type=PORT,
    default=0,
    metavar="PORT",
    help="With --brokers, the port of the controller on 127.0.0.1 (default: a free port, stored in the data directory).",
)
@click.option(
    "--restart-nodes",
    "restarts_nodes",
    is_flag=True,
    help="With --brokers, restart nodes that end unexpectedly, after a delay that grows from 1 s to 60 s.",
)
# `ottla.Broker` passes --owner-pid, --takes-commands and --owned-directory to its broker.
@click.option("--owner-pid", type=int, hidden=True)
@click.option("--takes-commands", is_flag=True, hidden=True)
@click.option("--owned-directory", type=PATH, hidden=True)
# With --started-line the container image lets the broker print lines after its JSON line.
@click.option("--started-line", "started_lines", multiple=True, hidden=True)
# With --remove-users-file the container image creates users once: a user that was deleted later must not be created again.
@click.option("--remove-users-file", "removes_users_file", is_flag=True, hidden=True)
@click.option(
    "--ready-file",
    type=PATH,
    envvar=READY_FILE_VARIABLE,
    metavar="FILE",
    help=f"File that has the JSON line, and exists while the broker answers requests (default: ${READY_FILE_VARIABLE}).",
)
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default="auto",
    help="Format of log lines; auto is console on a terminal, else json.",
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", help="Minimum level of log lines (default: info).")
def command(
    properties: Path | None,
    listen: str | None,
    data_dir: str | None,
    settings: tuple[str, ...],
    topics: tuple[FirstTopic, ...],
    users: tuple[FirstUser, ...],
    users_file: Path | None,
    features: tuple[str, ...],
    metrics_port: int | None,
    control_port: int | None,
    has_console: bool,
    is_read_only: bool,
    registry_port: int | None,
    clock: str,
    faults_file: Path | None,
    broker_count: int | None,
    controller_port: int,
    restarts_nodes: bool,
    takes_commands: bool,
    owner_pid: int | None,
    owned_directory: Path | None,
    started_lines: tuple[str, ...],
    removes_users_file: bool,
    ready_file: Path | None,
    log_format: str,
    log_level: str,
) -> int:
    import_packages()
    from ottla.broker.config.definitions import ConfigError

    by_flags = _settings_of_flags(
        listen,
        data_dir,
        metrics_port,
        control_port,
        registry_port,
        has_console=has_console or is_read_only,
        is_read_only=is_read_only,
    )
    try:
        config, warnings = _configuration(properties, settings, by_flags, replaces_listeners=listen is not None)
        first_topics = [*from_environment(os.environ), *topics]
        first_users = [*users_of_file(users_file), *users]
        check_names(first_users)
    except (ConfigError, BadArgument) as error:
        raise Refused(str(error), exit_code=1) from None
    levels = feature_levels(features, exit_code=1)
    _check_kind(
        broker_count,
        alone={"--topic": first_topics, "--clock": clock != MACHINE},
        clustered={"--controller-port": controller_port, "--restart-nodes": restarts_nodes},
    )
    start = Start(
        config=config,
        features=levels,
        warnings=warnings,
        first_users=first_users,
        remove_when_ready=users_file if removes_users_file else None,
        faults_file=faults_file,
        owner=None if owner_pid is None else OwnerProcess(pid=owner_pid, owned_directory=owned_directory),
        ready_file=ready_file,
        as_json=log_format == "json" or (log_format == "auto" and not sys.stderr.isatty()),
        log_level=log_level,
    )
    if broker_count is not None:
        return _run_cluster(start, broker_count, controller_port, restarts_nodes=restarts_nodes, takes_commands=takes_commands)
    if config.settings.process_roles == ("controller",):
        return _run_controller(start)
    return _run_broker(start, first_topics, clock, started_lines)


def _configuration(
    properties: Path | None, settings: Sequence[str], by_flags: dict[str, str], *, replaces_listeners: bool
) -> tuple[BrokerConfig, dict[str, str | None]]:
    """Load the settings of all sources. Also returns the settings that have no effect. Raises `ConfigError` and `BadArgument`."""
    from ottla.broker.config.sources import load, variable_near

    config, ignored = load(properties, os.environ, list(settings), by_flags)
    if replaces_listeners:
        _check_listen(load(properties, os.environ, list(settings), {})[0].settings)
    unused = _without_effect(config.given.keys() - by_flags.keys())
    return config, {**dict.fromkeys(unused), **{name: variable_near(name) for name in ignored}}


def _without_effect(names: Collection[str]) -> list[str]:
    if not names:
        return []
    # Imported only if settings are given, because most brokers start without them.
    from ottla.broker.config.effects import without_effect
    from ottla.coordinator.metadata.cluster import BROKER_RESOURCE

    return without_effect(BROKER_RESOURCE, names)


def _check_kind(broker_count: int | None, *, alone: dict[str, object], clustered: dict[str, object]) -> None:
    """Raise `Refused` for given options that apply only to a single broker, or only to a cluster."""
    if broker_count is not None:
        for flag in (flag for flag, is_given in alone.items() if is_given):
            raise Refused(f"{flag} applies to a single broker; leave {flag} or --brokers out", exit_code=1)
        return
    for flag in (flag for flag, is_given in clustered.items() if is_given):
        raise Refused(f"{flag} applies to a cluster; give --brokers as well", exit_code=1)


def _run_cluster(start: Start, broker_count: int, controller_port: int, *, restarts_nodes: bool, takes_commands: bool) -> int:
    from ottla.broker.config.definitions import ConfigError
    from ottla.cli.serve_brokers import serve_brokers

    try:
        return serve_brokers(start, broker_count, controller_port, restarts_nodes=restarts_nodes, takes_commands=takes_commands)
    except ConfigError as error:
        raise Refused(str(error), exit_code=1) from None


def _run_controller(start: Start) -> int:
    from ottla.broker.process import controller_main

    return controller_main.run(
        start.config,
        start.features,
        ready_file=start.ready_file,
        as_json=start.as_json,
        log_level=start.log_level,
        warnings=start.warnings,
        owner=start.owner,
        first_users=start.first_users,
        remove_when_ready=start.remove_when_ready,
    )


def _run_broker(start: Start, first_topics: list[FirstTopic], clock: str, started_lines: Sequence[str]) -> int:
    from ottla.broker.process.main import run

    settings = start.config.settings
    return run(
        start.config if clock == MACHINE else with_still_defaults(start.config),
        start.features,
        ready_file=start.ready_file,
        as_json=start.as_json,
        log_level=start.log_level,
        warnings=start.warnings,
        first_topics=first_topics,
        first_users=start.first_users,
        remove_when_ready=start.remove_when_ready,
        parts=optional_parts(
            clock,
            start.faults_file,
            start.owner,
            has_control_api=settings.has_control_server,
            has_registry=settings.ottla_schema_registry_port is not None,
        ),
        started_lines=started_lines,
    )


def _settings_of_flags(
    listen: str | None,
    data_dir: str | None,
    metrics_port: int | None,
    control_port: int | None,
    registry_port: int | None,
    *,
    has_console: bool,
    is_read_only: bool,
) -> dict[str, str]:
    given = {
        "listeners": None if listen is None else f"PLAINTEXT://{listen}",
        "log.dirs": data_dir,
        "ottla.metrics.port": metrics_port,
        "ottla.control.port": control_port,
        "ottla.console": "true" if has_console else None,
        "ottla.console.read.only": "true" if is_read_only else None,
        "ottla.schema.registry.port": registry_port,
    }
    return {key: str(value) for key, value in given.items() if value is not None}


def _check_listen(settings: Settings) -> None:
    """Raise `BadArgument` if ``--listen``, which has one plain listener, would replace listeners with TLS or SASL."""
    from ottla.broker.config.security_protocols import SecurityProtocol, protocol_of

    for listener in settings.listeners:
        name = listener.partition("://")[0]
        protocol = protocol_of(settings.listener_security_protocol_map, name)
        if protocol is not SecurityProtocol.PLAINTEXT:
            raise BadArgument(
                f"--listen would replace {listener} by a listener without {protocol.name}; leave --listen out, or change listeners"
            )
