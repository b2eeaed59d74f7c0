"""``ottla fault``: adds, lists and removes the faults of a broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ottla.cli.commands import CommandGroup, Refused
from ottla.cli.control import remote, steers
from ottla.cli.output import note, show_json, show_table


@click.group("fault", cls=CommandGroup, help="Add, list and remove faults. docs/faults.md describes their fields.")
def command() -> None:
    pass


@command.command("add", help="Add faults given as JSON or YAML, and print their ids.")
@click.argument("text", metavar="[FAULT]", required=False)
@click.option("--file", type=click.File("rb"), metavar="FILE", help="File with the faults; - is the standard input.")
@steers
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
@steers
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


@command.command("remove", help="Remove a fault, or all faults with --all. Requests that it held continue.")
@click.argument("number", type=click.IntRange(min=1), metavar="[ID]", required=False)
@click.option("--all", "removes_all", is_flag=True, help="Remove all faults.")
@steers
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
