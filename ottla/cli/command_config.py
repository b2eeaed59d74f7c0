"""``--command-config``: the file with which commands connect to a secured cluster, in the format of Kafka's own tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.cli.commands import Refused

if TYPE_CHECKING:
    from ottla.client.security.client_config import Connecting

VARIABLE: Final = "OTTLA_COMMAND_CONFIG"
_SETTINGS: Final = "ottla.command_config"
"""The key in click's ``Context.meta`` of the file's path and properties. The contexts of a command and its groups share
``meta``."""

C = TypeVar("C", bound=Callable[..., Any])


def command_config_option(command: C, file_type: click.ParamType[Any]) -> C:
    """Add the option ``--command-config``. Its value is not an argument of the command; `connecting` returns the settings."""
    return click.option(
        "--command-config",
        type=file_type,
        is_eager=True,
        expose_value=False,
        envvar=VARIABLE,
        callback=_take_file,
        metavar="FILE",
        help=f"Properties file of Kafka's clients: security.protocol, sasl.*, ssl.*, bootstrap.servers (default: ${VARIABLE}).",
    )(command)


def _take_file(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Read the file, before click parses the other options. Its ``bootstrap.servers`` is the default of ``--bootstrap``. Raises
    `Refused`."""
    if path is None:
        return
    from ottla.client.security.client_config import SERVERS

    given = _read(path, "--command-config")
    context.meta[_SETTINGS] = path, given
    if given.get(SERVERS):
        context.default_map = {**(context.default_map or {}), "bootstrap": given[SERVERS]}


def _read(path: Path, option: str) -> dict[str, str]:
    from ottla.broker.config.definitions import ConfigError
    from ottla.broker.config.sources import read_file

    try:
        return read_file(path)
    except ConfigError as error:
        raise Refused(f"{option}: {error}") from None


def has_command_config() -> bool:
    """Whether the current command has a ``--command-config`` file."""
    return _SETTINGS in click.get_current_context().meta


def command_config_path() -> Path | None:
    """Return the path of the ``--command-config`` file; None without the option."""
    path: Path | None = click.get_current_context().meta.get(_SETTINGS, (None, {}))[0]
    return path


def command_config_properties() -> dict[str, str]:
    """Return the properties in the ``--command-config`` file; an empty dictionary without the option."""
    given: dict[str, str] = click.get_current_context().meta.get(_SETTINGS, (None, {}))[1]
    return given


def connecting(bootstrap: str, config: Path | None = None) -> Connecting:
    """Return how the current command connects to the brokers at ``bootstrap``, with the settings in ``config``, else in the file
    of ``--command-config``. Raises `Refused`."""
    from ottla.client.errors import ClientError
    from ottla.client.security.client_config import SERVERS, Connecting

    path, given = click.get_current_context().meta.get(_SETTINGS, ("--bootstrap", {}))
    if config is not None:
        path, given = config, _read(config, str(config))
    try:
        return Connecting.parse({**given, SERVERS: bootstrap}, prefix="")
    except ClientError as error:
        raise Refused(f"{path}: {error}") from None
