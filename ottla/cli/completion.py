"""``ottla completion``: prints a script that completes ottla's commands in a shell."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")
HELP = """Print a script that completes ottla's commands and options. For bash, add to ~/.bashrc:

\b
    eval "$(ottla completion bash)"

For zsh, add the line with zsh in place of bash to ~/.zshrc. For fish:
ottla completion fish > ~/.config/fish/completions/ottla.fish"""


@click.command("completion", help=HELP)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    from click.shell_completion import get_completion_class

    from ottla.cli import COMPLETION_VARIABLE
    from ottla.cli.root import root

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root, {}, "ottla", COMPLETION_VARIABLE).source_template % _variables())


def _variables() -> dict[str, str]:
    """Return the variables of click's templates. Click's own rendering would run bash to check bash's version."""
    from ottla.cli import COMPLETION_VARIABLE

    return {"complete_func": "_ottla_completion", "complete_var": COMPLETION_VARIABLE, "prog_name": "ottla"}
