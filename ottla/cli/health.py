"""``ottla health``: checks that a broker responds, has a healthy log directory and reaches a controller; lists stray
directories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ottla.cli.command_config import has_command_config
from ottla.cli.commands import Refused
from ottla.cli.options import (
    BOOTSTRAP,
    BOOTSTRAP_VARIABLE,
    DEFAULT_BOOTSTRAP,
    PATH,
    READY_FILE_VARIABLE,
    SECONDS,
    json_option,
    with_command_config,
)

if TYPE_CHECKING:
    from ottla.client.ready_line import NotReady

TIMEOUT_S = 5.0
WAIT_S = 30.0
HELP = """Exit with 0 if a broker answers requests, reaches its controller and has a healthy log directory, else with 1 and the
reason in one line. Each address of a list is checked and has a line of its own; exit with 1 if one of them fails. With --data-dir,
exit with 0 if the directory of a stopped broker can be read.

Warnings name directories that a broker has set aside because no topic has their id, with the command that restores their records.
Warnings do not change the exit code."""


@click.command(
    "health",
    help=HELP,
)
@click.option(
    "--bootstrap",
    type=BOOTSTRAP,
    metavar="HOST:PORT[,...]",
    help=f"Addresses of the brokers (default: ${BOOTSTRAP_VARIABLE}, else {DEFAULT_BOOTSTRAP}).",
)
@click.option(
    "--ready-file",
    type=PATH,
    metavar="FILE",
    help=f"Ready file of the broker, which has its address (default: ${READY_FILE_VARIABLE}).",
)
@click.option("--data-dir", metavar="DIR", help="Data directory of a stopped broker, in place of a running broker.")
@click.option(
    "--timeout-s", type=SECONDS, metavar="S", help="Time to wait for a response, in seconds (default: 5; 30 with --wait)."
)
@click.option("--wait", "waits", is_flag=True, help="Retry until the broker is healthy or --timeout-s has passed.")
@with_command_config
@json_option
def command(
    bootstrap: str | None, ready_file: Path | None, data_dir: str | None, timeout_s: float | None, waits: bool, as_json: bool
) -> int:
    import os

    from ottla.cli.health_check import Connect, ask, asked_again, checked_place, plain
    from ottla.client.ready_line import NotReady

    if data_dir is not None:
        if bootstrap is not None or ready_file is not None or waits:
            raise click.UsageError("--data-dir is for a stopped broker; --bootstrap, --ready-file and --wait are for a running one")
        from ottla.cli.health_at_rest import check

        return check(data_dir, as_json=as_json)
    if ready_file is not None and click.get_current_context().get_parameter_source("bootstrap") is ParameterSource.DEFAULT_MAP:
        # The address is from the --command-config file, and --ready-file takes precedence.
        bootstrap = None
    if bootstrap is not None and ready_file is not None:
        raise click.UsageError("--bootstrap and --ready-file exclude each other; give one of them")
    connect: Connect = plain
    if has_command_config():
        from ottla.cli.health_secured import secured

        connect = secured
    if timeout_s is None:
        timeout_s = WAIT_S if waits else TIMEOUT_S
    ready_file = ready_file or (Path(os.environ[READY_FILE_VARIABLE]) if os.environ.get(READY_FILE_VARIABLE) else None)
    addresses = _addresses(bootstrap) if bootstrap is not None or ready_file is None else []
    if len(addresses) > 1:
        from ottla.cli.health_list import check as check_list

        return check_list(addresses, timeout_s, waits=waits, as_json=as_json)
    bootstrap = addresses[0] if addresses else None

    def ask_once(timeout_s: float) -> tuple[str, list[str]]:
        place = bootstrap if bootstrap is not None else checked_place(ready_file or Path())
        return place, ask(place, timeout_s, connect)

    try:
        if waits:
            bootstrap, strays = asked_again(ask_once, timeout_s)
        else:
            bootstrap, strays = ask_once(timeout_s)
    except NotReady as failure:
        return _show_failure(bootstrap, failure, as_json=as_json)
    return _show_healthy(bootstrap, strays, as_json=as_json)


def _addresses(bootstrap: str | None) -> list[str]:
    """Return the addresses in ``bootstrap``, else in the environment variable, without repetitions. Raises `click.UsageError`."""
    import os

    from ottla.addresses import bootstrap_addresses, joined_address
    from ottla.arguments import BadArgument

    try:
        given = bootstrap_addresses(bootstrap or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP)
    except BadArgument as error:
        raise click.UsageError(f"${BOOTSTRAP_VARIABLE}: {error}") from None
    return list(dict.fromkeys(map(joined_address, given)))


def _show_failure(bootstrap: str | None, failure: NotReady, *, as_json: bool) -> int:
    reason = failure
    if bootstrap is not None and not has_command_config():
        from ottla.cli.health_secured import reason_of

        reason = reason_of(bootstrap, failure)
    if not as_json:
        raise Refused(str(reason), exit_code=1) from None
    from ottla.cli.output import show_json

    show_json({"bootstrap": bootstrap, "healthy": False, "reason": str(reason)})
    return 1


def _show_healthy(bootstrap: str, strays: list[str], *, as_json: bool) -> int:
    if as_json:
        from ottla.cli.output import show_json

        show_json({"bootstrap": bootstrap, "healthy": True, "warnings": strays})
        return 0
    click.echo(f"{bootstrap} answers")
    if strays:
        from ottla.cli.output import printable

        for line in strays:
            click.echo(f"warning: {printable(line)}")
    return 0
