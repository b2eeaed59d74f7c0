"""``ottla fault``: adds, lists and removes the faults of a broker, and ends connections and sessions of its clients."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.commands import CommandGroup, Refused
from ottla.cli.control import controls_broker, remote
from ottla.cli.output import note, show_json, show_table

if TYPE_CHECKING:
    from ottla.control.remote import Remote

C = TypeVar("C", bound=Callable[..., Any])


@click.group("fault", cls=CommandGroup, help="Add, list and remove faults. docs/faults.md describes their fields.")
def command() -> None:
    pass


@command.command("add", help="Add faults given as JSON or YAML, and print their ids.")
@click.argument("text", metavar="[FAULT]", required=False)
@click.option("--file", type=click.File("rb"), metavar="FILE", help="File with the faults; - is the standard input.")
@controls_broker
def add(text: str | None, file: Any, url: str | None, token: str | None, ready_file: Path | None, as_json: bool) -> None:
    import msgspec

    from ottla.control.faults.registry import FaultError, parse_faults
    from ottla.control.remote import ControlError

    if (text is None) == (file is None):
        raise Refused("give a fault, as in '{api: EndTxn, drop_answer: true}', or --file")
    try:
        faults = parse_faults(text if text is not None else file.read())
        added = remote(url, token, ready_file).post("/v1/faults", msgspec.to_builtins(faults))
    except (FaultError, ControlError) as error:
        raise Refused(str(error)) from None
    if as_json:
        show_json(added)
    else:
        for one in added:
            click.echo(one["id"])


@command.command("list", help="List the faults and the number of their hits.")
@controls_broker
def list_(url: str | None, token: str | None, ready_file: Path | None, as_json: bool) -> None:
    from ottla.control.remote import ControlError

    try:
        faults = remote(url, token, ready_file).get("/v1/faults")
    except ControlError as error:
        raise Refused(str(error)) from None
    if as_json:
        show_json(faults)
    elif faults:
        show_table(["ID", "HITS", "MATCHED", "FAULT", ""], map(_row, faults))
    else:
        note("there are no faults; ottla fault add adds one")


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    """Format a fault as a row of a table, with the fields in the form that `ottla fault add` accepts."""
    fields = ", ".join(f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in one["fault"].items())
    return one["id"], one["hits"], one["matched"], fields, "spent" if one["is_spent"] else ""


@command.command("remove", help="Remove a fault, or all faults with --all. Requests that a removed fault holds continue.")
@click.argument("number", type=click.IntRange(min=1), metavar="[ID]", required=False)
@click.option("--all", "removes_all", is_flag=True, help="Remove all faults.")
@controls_broker
def remove(
    number: int | None, removes_all: bool, url: str | None, token: str | None, ready_file: Path | None, as_json: bool
) -> None:
    from ottla.control.remote import ControlError

    if (number is None) != removes_all:
        raise Refused("give the id of a fault, or --all; ottla fault list shows the ids")
    try:
        remote(url, token, ready_file).delete("/v1/faults" if number is None else f"/v1/faults/{number}")
    except ControlError as error:
        raise Refused(str(error)) from None
    if as_json:
        show_json({})


def _selects_clients(command: C) -> C:
    command = click.option("--client-id", metavar="ID", help="Client id of the clients, or a pattern.")(command)
    return click.option("--user", metavar="NAME", help="User of the clients, or a pattern.")(command)


@command.command("disconnect", help="Close the connections of a user or of a client id.")
@_selects_clients
@controls_broker
def disconnect(
    user: str | None, client_id: str | None, url: str | None, token: str | None, ready_file: Path | None, as_json: bool
) -> None:
    _end("/v1/connections/close", "connections", "closed", user, client_id, remote(url, token, ready_file), as_json)


@command.command("expire-sessions", help="End the SASL sessions of a user or of a client id, as if their tokens had expired.")
@_selects_clients
@controls_broker
def expire_sessions(
    user: str | None, client_id: str | None, url: str | None, token: str | None, ready_file: Path | None, as_json: bool
) -> None:
    _end("/v1/sessions/expire", "sessions", "ended", user, client_id, remote(url, token, ready_file), as_json)


def _end(path: str, what: str, done: str, user: str | None, client_id: str | None, control: Remote, as_json: bool) -> None:
    from ottla.control.remote import ControlError

    if user is None and client_id is None:
        raise Refused("give --user, --client-id or both; --user '*' selects every user")
    given = {name: value for name, value in (("user", user), ("client_id", client_id)) if value is not None}
    try:
        ended = control.post(path, given)
    except ControlError as error:
        raise Refused(str(error)) from None
    if as_json:
        show_json(ended)
    else:
        click.echo(f"{what} {done}: {ended[what]:,}")
