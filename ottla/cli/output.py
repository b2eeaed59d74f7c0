"""Prints tables and progress bars for people, and JSON for programs.

rich is imported when a table or a bar is drawn, so that a broker never imports rich.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal

import click

UNBOUNDED_WIDTH: Final = 10_000
"""Width, in characters, of a table that is not for a terminal, so that nothing is truncated or wrapped."""
COLUMN_MARGIN: Final = 3
"""Maximum number of characters between two columns on a terminal."""
MAX_NAME_CHARACTERS: Final = 150
"""Maximum length of a name in a table, in characters. Kafka allows 32,767 bytes, and one long name would widen the whole column."""
NOTHING: Final = "-"


def show_json(value: Any) -> None:
    """Print a JSON document on one line. Characters that control a terminal become JSON escapes, so that no information is lost."""
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    if not text.isprintable():
        # `json.dumps` escapes only the characters below 0x20. Other unprintable characters occur only inside JSON strings.
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    click.echo(text)


def show_line(text: str) -> None:
    """Print a line for a person. Control characters are escaped, because the line may contain names from a cluster."""
    click.echo(printable(text))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        # Imported here, because most commands print no bytes.
        from ottla.client.records.documents import text_or_base64

        return text_or_base64(value)
    raise TypeError(f"{type(value).__name__} cannot be encoded as JSON")


def printable(value: bytes | str | None) -> str:
    """Format a value for a terminal. Bytes that are not UTF-8 and unprintable characters become escape sequences."""
    if value is None:
        return NOTHING
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def short(name: str) -> str:
    """Shorten a name for a table. JSON output is not shortened."""
    shown = printable(name)
    return shown if len(shown) <= MAX_NAME_CHARACTERS else f"{shown[: MAX_NAME_CHARACTERS - 3]}..."


def time_text(ms: int | None) -> str:
    """Format a time in UTC, in the form that ``--from`` accepts."""
    if ms is None or ms < 0:
        return NOTHING
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """Print a table with right-aligned numbers. If the output is not a terminal, lines are never wrapped, for grep and awk."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = [[cell if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    is_terminal = sys.stdout.isatty()
    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        title_style="bold",
        box=SIMPLE if is_terminal else None,
        pad_edge=is_terminal,
        header_style="bold",
    )
    for at, column in enumerate(columns):
        is_number = bool(shown) and all(isinstance(row[at], int) and not isinstance(row[at], bool) for row in shown)
        # Wrap long names on a terminal only, so that grep and awk see whole lines.
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=not is_terminal, min_width=len(column))
    for row in shown:
        table.add_row(*(Text(f"{cell:,}" if is_terminal and isinstance(cell, int) else printable(str(cell))) for cell in row))
    console = Console(file=sys.stdout, width=None if is_terminal else UNBOUNDED_WIDTH, highlight=False, soft_wrap=False)
    # If the terminal is narrower than the column names, let the terminal wrap lines; rich would omit columns.
    console.width = max(console.width, COLUMN_MARGIN + sum(len(column) + COLUMN_MARGIN for column in columns))
    # Let click print the table, because rich exits the process on a broken pipe.
    with console.capture() as drawn:
        console.print(table)
    click.echo(drawn.get(), nl=False)


def show_pairs(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one pair per line."""
    rows = [(name, printable(str(value))) for name, value in pairs]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        click.echo(f"{name:<{width}}  {value}")


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar if stderr is a terminal. Yields a callable that advances the bar."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, advance=done)


def note(text: str) -> None:
    """Print a note to stderr, because programs read stdout."""
    click.echo(printable(text), err=True)
