"""Numbers and names in sentences."""

from __future__ import annotations

from shlex import quote


def counted(count: int, noun: str) -> str:
    """A number of things. The noun takes an s where there are several."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def command_for(command: str, name: str) -> str:
    """A command to paste, with a name as its last word. A name that a terminal is not shown as it is would be pasted as another
    name."""
    if not name.isprintable():
        return f"{command} NAME, with the name that --json tells: some of its characters are not shown here"
    return f"{command} {'-- ' if name.startswith('-') else ''}{quote(name)}"
