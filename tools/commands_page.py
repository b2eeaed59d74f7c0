"""Writes docs/commands.md, the page of the command line, from the commands' help: ``python -m tools.commands_page``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import click

from ottla.cli.root import root

TARGET = Path(__file__).parent.parent / "docs" / "commands.md"
WIDTH = 110
HEAD = """# The command line

<!-- Written by `python -m tools.commands_page`; tests/tools/test_pages.py compares. -->

Every command prints its help with `--help`. Commands with `--bootstrap` work with any Kafka cluster; the default address is
`$OTTLA_BOOTSTRAP`. With `--command-config` they work with a [secured cluster](security.md#use-commands-with-a-secured-cluster). An
error is one line, with exit code 2.

"""


def page() -> str:
    # Fix the width, so that the page does not depend on this terminal.
    with patch.dict(os.environ, {"COLUMNS": str(WIDTH)}):
        return HEAD + "\n".join(_section(path, command) for path, command in commands())


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command with the words of its name, in the order of the help. Groups that are no commands are omitted."""
    yield from _below((), root, click.Context(root, info_name="ottla"))


def _below(path: tuple[str, ...], group: click.Group, context: click.Context) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield (*path, name), command
            yield from _below((*path, name), command, context)
        else:
            yield (*path, name), command


def _section(path: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(("ottla", *path)), terminal_width=WIDTH, max_content_width=WIDTH)
    return f"## {' '.join(path)}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"


def main() -> int:
    TARGET.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
