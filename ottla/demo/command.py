"""``ottla demo``: runs the shop with failures, and proves that every purchase was handled once."""

from __future__ import annotations

import click

from ottla.cli.commands import Refused
from ottla.cli.options import COUNT, PORT, json_option
from ottla.process import interrupt_on_ctrl_c


@click.command("demo", help="Run a shop with injected failures and prove that every purchase was handled once.")
@click.option("--port", type=PORT, default=9092, help="Port of the broker on 127.0.0.1 (default: 9092).")
@click.option("--purchases", type=COUNT, default=5_000, metavar="N", help="Number of purchases (default: 5000).")
@click.option("--data-dir", metavar="DIR", help="Data directory, kept after the demo (default: a temporary directory).")
@json_option
def command(port: int, purchases: int, data_dir: str | None, as_json: bool) -> int:
    try:
        from ottla.demo.run import run
    except ImportError as error:
        raise Refused(f"the demo needs {error.name}; install ottla[demo]", exit_code=1) from None
    interrupt_on_ctrl_c()
    return run(port=port, purchases=purchases, data_dir=data_dir, as_json=as_json)
