"""``ottla doctor``: finds out why a client cannot connect to a cluster."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.command_config import connecting
from ottla.cli.findings import show_findings, show_findings_of_each
from ottla.cli.options import (
    BOOTSTRAP,
    BOOTSTRAP_VARIABLE,
    CLIENT_ID,
    DEFAULT_BOOTSTRAP,
    SECONDS,
    json_option,
    with_command_config,
)

TIMEOUT_S: Final = 3.0
HELP = """Find out why a client cannot connect: check name resolution, TCP, TLS and SASL, the client's settings and the API versions
of a broker, and then the listeners that all brokers advertise. Exit with 0 if a client on this machine can connect, else with 1.

Give the address that the client is configured with. Each address of a list is checked; exit with 1 if one of them fails or belongs
to another cluster. Run the command where the client runs, with the client's settings in --command-config. Without HOST:PORT the
address is bootstrap.servers of that file, else $OTTLA_BOOTSTRAP, else 127.0.0.1:9092."""


@click.command("doctor", help=HELP)
@click.argument("bootstrap", type=BOOTSTRAP, metavar="[HOST:PORT[,...]]", required=False)
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
        addresses = bootstrap_addresses(bootstrap or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP)
    except BadArgument as error:
        raise click.UsageError(f"${BOOTSTRAP_VARIABLE}: {error}") from None
    clusters: dict[str | None, str] = {}
    examined = {
        (where := joined_address(address)): examine(address, connecting(where), timeout_s, CLIENT_ID, clusters)
        for address in dict.fromkeys(addresses)
    }
    if len(examined) == 1:
        ((where, findings),) = examined.items()
        failed = {where: show_findings(where, findings, as_json=as_json)}
    else:
        failed = show_findings_of_each(examined, as_json=as_json)
    if not as_json:
        if len(failed) > 1:
            click.echo()
        for where, checks in failed.items():
            verdict = f"cannot use {where}: see {', '.join(checks)}" if checks else f"can use {where}"
            click.echo(click.style(f"clients on this machine {verdict}", bold=True))
    return 1 if any(failed.values()) else 0
