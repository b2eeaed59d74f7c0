"""The base of all commands: groups that import a command's module when the command is called, and errors in one line."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from ottla.process import USAGE_EXIT

POSIX_MODULES: Final = frozenset({"fcntl", "resource"})
"""Modules that Python lacks on Windows. Brokers, commands for data directories and the console import one of them."""


class Lazy(NamedTuple):
    """A command whose module is imported when the command is called. ``help`` is the command's line in the group's help.

    ``module`` is the name of a module in `ottla.cli`, or a full name, for packages that import `ottla.cli`. The module has the
    attribute ``command``.
    """

    module: str
    help: str


class Refused(click.ClickException):
    """A command failed. The message is printed as one line."""

    def __init__(self, message: str, exit_code: int = USAGE_EXIT) -> None:
        super().__init__(" ".join(message.split()))
        self.code = exit_code


class CommandGroup(click.Group):
    """A group that lists the ``lazy`` commands first, then other commands in the order of their definition."""

    def __init__(self, *arguments: Any, lazy: Mapping[str, Lazy] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lazy = dict(lazy or {})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            ctx.fail(f"no command was given; choose one of {', '.join(self.list_commands(ctx))}")
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._lazy.get(cmd_name)
        if entry is None:
            return self.commands.get(cmd_name)
        module = entry.module if "." in entry.module else f"ottla.cli.{entry.module}"
        command: click.Command = import_module(module).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, self.list_commands(ctx), 1)
            ctx.fail(f"unknown command {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, entry.help) for name, entry in self._lazy.items()]
        rows += [(name, command.get_short_help_str(limit=200)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def line_of(error: click.UsageError) -> str:
    """Format a usage error as one line that names the help command."""
    path = "ottla" if error.ctx is None else error.ctx.command_path
    return f"{path}: {' '.join(_what(error).split())}; see {path} --help"


def _what(error: click.UsageError) -> str:
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f"{_name(error.param)} is missing"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{_name(error.param)}: {error.message.rstrip('.')}"
    message = error.format_message().rstrip(".")
    # The message begins in lower case, unless its first word is the name of an argument in upper case.
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]


def _name(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return parameter.opts[-1]
    return str(parameter.metavar or parameter.human_readable_name.upper())
