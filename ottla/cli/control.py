"""How commands find the door of a broker that can be steered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.commands import Refused
from ottla.cli.options import PATH, READY_FILE_VARIABLE, json_option

if TYPE_CHECKING:
    from ottla.control.remote import Remote

URL_VARIABLE, TOKEN_VARIABLE = "OTTLA_CONTROL_URL", "OTTLA_CONTROL_TOKEN"

C = TypeVar("C", bound=Callable[..., Any])


def steers(command: C) -> C:
    """The flags of a command that steers a broker."""
    command = json_option(command)
    command = click.option(
        "--ready-file",
        type=PATH,
        envvar=READY_FILE_VARIABLE,
        metavar="FILE",
        help=f"what ottla serve --ready-file has written: it names the door and the token (default: ${READY_FILE_VARIABLE})",
    )(command)
    command = click.option("--token", envvar=TOKEN_VARIABLE, metavar="TOKEN", help=f"the door's (default: ${TOKEN_VARIABLE})")(
        command
    )
    return click.option("--url", envvar=URL_VARIABLE, metavar="URL", help=f"the door (default: ${URL_VARIABLE})")(command)


def remote(url: str | None, token: str | None, ready_file: Path | None) -> Remote:
    """Raises `Refused`."""
    from ottla.control.remote import Remote
    from ottla.ready_line import NotReady, read_ready_file

    if url and token:
        return Remote(url, token)
    if url or token or ready_file is None:
        raise Refused("which broker? give --ready-file, or --url and --token; ottla serve --control-port 0 prints both")
    try:
        said = read_ready_file(ready_file)
    except NotReady as error:
        raise Refused(str(error)) from None
    match said.get("control"):
        case {"url": str(url), "token": str(token)}:
            return Remote(url, token)
    raise Refused(f"the broker of {ready_file} has no control port; start it with ottla serve --control-port 0")
