"""The exit codes of the command line, in one place.

A command that a signal interrupts ends with 128 and the number of the signal, as in shells. A command whose regular end is a signal
(``serve``, ``console``, ``copy --follow``) ends with 0 after SIGINT and SIGTERM.
"""

from __future__ import annotations

STOPPED = 0
"""A server was stopped by SIGINT or SIGTERM."""
FAILED = 1
USAGE = 2
"""The command line is wrong, or a cluster refused what it asks for."""


def interrupted(number: int) -> int:
    """Return the exit code of a command that a signal has ended."""
    return 128 + number
