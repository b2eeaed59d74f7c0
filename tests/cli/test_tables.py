"""Tables keep all columns and values on a narrow terminal. A closed output pipe ends a table without an error."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest

from ottla.cli.output import show_table

COLUMNS = ["PARTITION", "LEADER", "EARLIEST", "LAST STABLE", "LATEST", "REPLICAS", "IN SYNC", "OFFLINE"]
ROWS = [(at, "127.0.0.1", 1, 22, 333_333, "1", "1", "-") for at in range(3)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [1, 20, 40, 200])
def test_cli_table_shows_all_columns_at_every_width(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    show_table(COLUMNS, ROWS)
    text = re.sub("\x1b\\[[0-9;]*m", "", terminal.getvalue())
    for word in ("PARTITION", "LEADER", "EARLIEST", "LATEST", "333,333"):
        assert word in text
    assert text.count("22") == len(ROWS)


@pytest.mark.smoke
def test_closed_pipe_ends_a_cli_table_without_an_error() -> None:
    program = """
import sys
from ottla.cli import main, root
from ottla.cli.output import show_table
import click

@click.command()
def command():
    show_table(["NAME"], [["x" * 1_000]] * 1_000)

root.root.add_command(command, "table")
raise SystemExit(main(["table"]))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141
