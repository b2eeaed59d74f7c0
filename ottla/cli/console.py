"""``ottla console``: serves the web console for a cluster, ottla or Apache Kafka."""

from __future__ import annotations

import signal
import sys
import threading

import click

from ottla.cli.command_config import command_config_path, connecting
from ottla.cli.commands import Refused
from ottla.cli.options import PORT, at_bootstrap, json_option, with_command_config
from ottla.cli.output import show_json

HELP = """Serve the web console for a cluster until SIGTERM or Ctrl-C; exit with 0. Its address, with the token that opens it, is
printed.

The console shows and changes topics, records, groups, transactions and configs of any Kafka cluster. Faults, the clock and the
history of clients are only in the console of an ottla broker itself (serve --console)."""


@click.command("console", help=HELP)
@click.option("--port", type=PORT, default=0, metavar="PORT", help="Port of the console on 127.0.0.1 (default: a free port).")
@click.option("--read-only", is_flag=True, help="Serve the console without anything that changes the cluster.")
@with_command_config
@at_bootstrap
@json_option
def command(port: int, read_only: bool, bootstrap: str, as_json: bool) -> None:
    from ottla.broker.loop.env import why_not_bound
    from ottla.console.elsewhere import console_server

    config = command_config_path()
    of_cluster = [] if config is None else ["--command-config", str(config)]
    try:
        server = console_server(bootstrap, connecting(bootstrap), port=port, is_read_only=read_only, of_cluster=of_cluster)
    except OSError as error:
        raise Refused(f"cannot open port {port} on 127.0.0.1: {why_not_bound(error)}; choose another with --port") from None
    is_stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_stopped.set())
    server.serve()
    if as_json:
        show_json({"bootstrap": bootstrap, "console": server.url})
    else:
        click.echo(f"console of {bootstrap}: {server.url}")
    sys.stdout.flush()
    is_stopped.wait()
    server.close()
