"""``ottla console``: serves the web console for a cluster, ottla or Apache Kafka."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.command_config import command_config_path, command_config_properties, connecting
from ottla.cli.commands import Refused
from ottla.cli.options import PORT, at_bootstrap, json_option, with_command_config
from ottla.cli.output import note, show_json
from ottla.cli.registry_values import REGISTRY_VARIABLE, USER_VARIABLE, registry_of

if TYPE_CHECKING:
    from ottla.client.schema_registry.registry_client import Registry

SIGNAL_CHECK_S: Final = 0.1
"""Time between checks for signals, in seconds."""
HELP = """Serve the web console for a cluster until SIGTERM or Ctrl-C; exit with 0. Print its URL, which contains the access
token.

The console shows and changes topics, records, groups, transactions and configs of any Kafka cluster. Faults, the clock and the
history of clients are only in the console of an ottla broker itself (serve --console)."""


@click.command("console", help=HELP)
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="HOST",
    help="Address to listen on, such as 0.0.0.0 in a container. Requests need the token, which is sent unencrypted"
    " (default: 127.0.0.1).",
)
@click.option("--port", type=PORT, default=0, metavar="PORT", help="Port of the console (default: a free port).")
@click.option("--read-only", is_flag=True, help="Serve a console that cannot change the cluster.")
@click.option(
    "--schema-registry",
    "--registry",
    "registry_url",
    envvar=REGISTRY_VARIABLE,
    metavar="URL",
    help=f"Schema registry for decoding values and for the pages of schemas (default: ${REGISTRY_VARIABLE}, else"
    " schema.registry.url of --command-config)."
    f" Credentials are ${USER_VARIABLE}, or basic.auth.user.info or bearer.auth.token of --command-config.",
)
@with_command_config
@at_bootstrap
@json_option
def command(host: str, port: int, read_only: bool, registry_url: str | None, bootstrap: str, as_json: bool) -> None:
    from ottla.broker.loop.env import why_not_bound
    from ottla.console.elsewhere import console_server

    config = command_config_path()
    registry = _registry(registry_url)
    of_cluster = [] if config is None else ["--command-config", str(config)]
    connection = connecting(bootstrap)
    try:
        server = console_server(
            bootstrap, connection, host=host, port=port, is_read_only=read_only, of_cluster=of_cluster, registry=registry
        )
    except OSError as error:
        advice = "choose another with --host or --port"
        raise Refused(f"cannot open port {port} on {host}: {why_not_bound(error)}; {advice}") from None
    received: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda given, _: received.append(given))
    server.serve()
    if as_json:
        show_json({"bootstrap": bootstrap, "console": server.url})
    else:
        click.echo(f"console of {bootstrap}: {server.url}")
    sys.stdout.flush()
    # A wait without a timeout would not end for a signal that arrives just before the wait.
    while not received:
        time.sleep(SIGNAL_CHECK_S)
    server.close()


def _registry(url: str | None) -> Registry | None:
    """Return the schema registry. Prints a note if the registry cannot be reached; pages connect to it again. Raises `Refused` for
    an invalid URL."""
    from ottla.client.errors import ClientError

    try:
        registry = registry_of(url, command_config_properties())
    except ClientError as error:
        raise Refused(f"--schema-registry: {error}") from None
    if registry is not None:
        from ottla.client.schema_registry.registry_client import RegistryClient

        try:
            RegistryClient(registry).check()
        except ClientError as error:
            note(f"values are shown without their schemas: {error}")
    return registry
