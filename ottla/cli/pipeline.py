"""``ottla pipeline``: jobs on Spark, whose own parser reads what follows."""

from __future__ import annotations

import click

from ottla.cli.commands import Refused
from ottla.process import interrupt_on_ctrl_c


@click.command(
    "pipeline",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> int:
    try:
        if arguments[:1] == ("demo",):
            from ottla.demo.pipeline import run

            interrupt_on_ctrl_c()
            return run(list(arguments[1:]))
        from ottla.pipeline.cli import main
    except ModuleNotFoundError as missing:
        raise Refused(f"the pipeline needs {missing.name}: pip install 'ottla[pipeline]'", exit_code=1) from None
    interrupt_on_ctrl_c()
    return main(list(arguments))
