"""Numbers and names in sentences."""

from __future__ import annotations

from shlex import quote


def counted(count: int, noun: str) -> str:
    """Format a count with its noun, which takes an s in the plural."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def command_for(command: str, name: str) -> str:
    """Format a command to paste, with a name as its last word. A name with unprintable characters would paste as another name."""
    if not name.isprintable():
        return f"{command} NAME, with the name that --json shows: some of its characters cannot be shown here"
    return f"{command} {'-- ' if name.startswith('-') else ''}{quote(name)}"
