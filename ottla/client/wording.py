"""Formats numbers and names for sentences."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote


def counted(count: int, noun: str) -> str:
    """Format a count with its noun; the plural ends with s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def up_to_records(offsets: int) -> str:
    """Say how many records a range of offsets may have. Transaction markers have offsets as well, and compaction leaves gaps."""
    return f"up to {counted(offsets, 'record')} (transaction markers count too)" if offsets else "no records"


def command_for(command: str, name: str, of_cluster: Iterable[str] = ()) -> str:
    """Format a command for a shell, with connection options and with a name as last argument. An unprintable name is omitted,
    because it cannot be copied from a terminal."""
    command = " ".join([command, *map(quote, of_cluster)])
    if not name.isprintable():
        return f"{command} NAME, with the name that --json shows: some of its characters cannot be shown here"
    return f"{command} {'-- ' if name.startswith('-') else ''}{quote(name)}"
