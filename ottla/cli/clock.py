"""``ottla clock``: shows and advances the clock of a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ottla.cli.commands import CommandGroup, Refused
from ottla.cli.control import controls_broker, remote
from ottla.cli.output import show_json, show_pairs, time_text


@click.group("clock", cls=CommandGroup, help="Show and advance the clock of a broker.")
def command() -> None:
    pass


@command.command("show", help="Show the time of a broker and whether its clock is manual.")
@controls_broker
def show(url: str | None, token: str | None, ready_file: Path | None, as_json: bool) -> None:
    from ottla.control.remote import ControlError

    try:
        _show(remote(url, token, ready_file).get("/v1/clock"), as_json=as_json)
    except ControlError as error:
        raise Refused(str(error)) from None


@command.command(
    "advance",
    help="Advance a manual clock by a duration such as 61s, 1h30m or 7d. Timers due in that time fire before the command returns.",
)
@click.argument("duration", metavar="DURATION")
@controls_broker
def advance(duration: str, url: str | None, token: str | None, ready_file: Path | None, as_json: bool) -> None:
    from ottla.control.durations import duration_ms
    from ottla.control.remote import ControlError

    try:
        by_ms = duration_ms(duration)
        _show(remote(url, token, ready_file).post("/v1/clock/advance", {"by_ms": by_ms}), as_json=as_json)
    except (ControlError, ValueError) as error:
        raise Refused(str(error)) from None


def _show(shown: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(shown)
    else:
        show_pairs([("time", time_text(shown["now_ms"])), ("mode", "manual" if shown["is_manual"] else "machine")])
