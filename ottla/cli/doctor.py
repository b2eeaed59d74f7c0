"""``ottla doctor``: finds out why a client cannot connect to a cluster."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.command_config import connecting
from ottla.cli.options import (
    BOOTSTRAP,
    BOOTSTRAP_VARIABLE,
    CLIENT_ID,
    DEFAULT_BOOTSTRAP,
    SECONDS,
    json_option,
    with_command_config,
)
from ottla.cli.output import printable, show_json

if TYPE_CHECKING:
    from ottla.client.explain.reachability import Finding

TIMEOUT_S: Final = 3.0
MIN_WIDTH: Final = 60
STATUS_COLOURS: Final = {"ok": "green", "warning": "yellow", "failed": "red"}
HELP = """Find out why a client cannot connect: check name, TCP, TLS and SASL, the client's settings and the API versions of a
broker, and then the listeners that all brokers advertise. Exit with 0 if a client on this machine can connect, else with 1.

Give the address that the client has. Run the command where the client runs, with the client's settings in --command-config.
Without HOST:PORT the address is bootstrap.servers of that file, else $OTTLA_BOOTSTRAP, else 127.0.0.1:9092."""


@click.command("doctor", help=HELP)
@click.argument("bootstrap", type=BOOTSTRAP, metavar="[HOST:PORT]", required=False)
@click.option(
    "--timeout-s",
    type=SECONDS,
    default=TIMEOUT_S,
    metavar="S",
    help=f"Time to wait for each connection and response, in seconds (default: {TIMEOUT_S:g}).",
)
@with_command_config
@json_option
def command(bootstrap: str | None, timeout_s: float, as_json: bool) -> int:
    import os

    from ottla.addresses import bootstrap_addresses, joined_address
    from ottla.arguments import BadArgument
    from ottla.client.explain.connection_checks import examine
    from ottla.process import interrupt_on_ctrl_c

    interrupt_on_ctrl_c()
    try:
        address = bootstrap_addresses(bootstrap or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP)[0]
    except BadArgument as error:
        raise click.UsageError(f"${BOOTSTRAP_VARIABLE}: {error}") from None
    where = joined_address(address)
    findings: list[Finding] = []
    for finding in examine(address, connecting(where), timeout_s, CLIENT_ID):
        findings.append(finding)
        if not as_json:
            _show(finding)
    failed = [finding for finding in findings if finding.status == "failed"]
    if as_json:
        checks = [{"check": f.check, "status": f.status, "text": f.text, "remedy": f.remedy or None} for f in findings]
        show_json({"bootstrap": where, "can_connect": not failed, "checks": checks})
    elif failed:
        _say(f"clients on this machine cannot use {where}: see {', '.join(dict.fromkeys(f.check for f in failed))}", bold=True)
    else:
        _say(f"clients on this machine can use {where}", bold=True)
    return 1 if failed else 0


def _show(finding: Finding) -> None:
    width = max(MIN_WIDTH, shutil.get_terminal_size().columns)
    head = f"{finding.status:<8} {finding.check:<10} "
    for text, indent in ((finding.text, head), (finding.remedy, " " * (len(head)) + "-> ")):
        if text:
            lines = textwrap.wrap(
                printable(text), width, initial_indent=indent, subsequent_indent=" " * len(indent), break_on_hyphens=False
            )
            coloured = lines[0].replace(finding.status, click.style(finding.status, fg=STATUS_COLOURS[finding.status]), 1)
            _say("\n".join([coloured if indent is head else lines[0], *lines[1:]]))


def _say(text: str, *, bold: bool = False) -> None:
    click.echo(click.style(text, bold=True) if bold else text)
