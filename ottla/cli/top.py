"""``ottla top``: shows what a cluster does, continuously in a terminal and once for a pipe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.options import SECONDS, asks, cluster_at
from ottla.cli.output import printable, show_json
from ottla.cli.top_view import TopView, compared

if TYPE_CHECKING:
    from ottla.client import KafkaClient

INTERVAL_S: Final = 2.0
HELP = """Watch a cluster: topics with the records written per second, groups with lag and the records read per second, and open
transactions. In a terminal the view is refreshed until q or Ctrl-C; otherwise it is printed once, after one interval.

Rates are differences of offsets, which include the markers of transactions."""


@click.command("top", help=HELP)
@click.option(
    "--interval-s", type=SECONDS, default=INTERVAL_S, metavar="S", help=f"Time between two samples (default: {INTERVAL_S:g})."
)
@click.option("--once", is_flag=True, help="Print once, also in a terminal.")
@click.option("--internal", is_flag=True, help="Include internal topics.")
@asks
def command(interval_s: float, once: bool, internal: bool, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    with cluster_at(bootstrap, timeout_s) as cluster:
        views = _views(cluster, interval_s, internal=internal)
        if as_json:
            show_json(next(views).document())
        elif once or not sys.stdout.isatty():
            _print(next(views))
        else:
            _watch(cluster, interval_s, internal=internal)


def _views(cluster: KafkaClient, interval_s: float, *, internal: bool) -> Iterator[TopView]:
    """Yield a comparison of the samples at the start and end of each interval."""
    from ottla.client.admin.activity import sample

    before = sample(cluster.brokers)
    while True:
        time.sleep(interval_s)
        now = sample(cluster.brokers)
        yield compared(before, now, internal=internal)
        before = now


def _print(view: TopView) -> None:
    from rich.console import Console

    from ottla.cli.output import UNBOUNDED_WIDTH

    width = None if sys.stdout.isatty() else UNBOUNDED_WIDTH
    console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False)
    with console.capture() as drawn:
        console.print(view.drawn(rows=None))
    click.echo("\n".join(line.rstrip() for line in drawn.get().splitlines()))


def _watch(cluster: KafkaClient, interval_s: float, *, internal: bool) -> None:
    """Redraw the tables on the terminal's alternate screen until q is pressed."""
    from rich.console import Console
    from rich.live import Live

    from ottla.client import ClientError
    from ottla.client.admin.activity import sample

    console = Console(file=sys.stdout, highlight=False)
    before = sample(cluster.brokers)
    shown = compared(before, before, internal=internal)
    with _keys() as is_quit, Live(shown.drawn(rows=console.height), console=console, screen=True, auto_refresh=False) as live:
        while not is_quit(interval_s):
            try:
                now = sample(cluster.brokers)
            except ClientError as error:
                # The cluster may be available again later, for example after a restart.
                live.update(shown.drawn(rows=console.height, problem=printable(str(error))), refresh=True)
                continue
            shown, before = compared(before, now, internal=internal), now
            live.update(shown.drawn(rows=console.height), refresh=True)


@contextmanager
def _keys() -> Iterator[Any]:
    """Yield a function that waits for some seconds and returns whether q was pressed.

    Without a terminal on stdin, and on Windows, it only waits.
    """
    if not sys.stdin.isatty() or not find_spec("termios"):

        def wait(seconds: float) -> bool:
            time.sleep(seconds)
            return False

        yield wait
        return
    import select
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    settings = termios.tcgetattr(descriptor)

    def pressed(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([descriptor], [], [], left)[0]:
                return False
            if os.read(descriptor, 1) in (b"", b"q", b"Q"):
                return True
        return False

    try:
        # In cbreak mode Ctrl-C still raises KeyboardInterrupt.
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, settings)
