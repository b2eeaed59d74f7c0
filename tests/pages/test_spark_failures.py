"""Each error that docs/spark-failures.md explains exists in the code, and each command in its text exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import click
import pytest

from ottla.cli.root import root

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark-failures.md").read_text()
ERRORS = [heading.strip("`") for heading in re.findall(r"^### (`[^\n]+`)$", PAGE, re.MULTILINE)]


@cache
def texts() -> str:
    """Return all message texts of the library, one per line, with an ellipsis for each value."""
    lines: list[str] = []
    for source in (ROOT / "ottla" / "spark").rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.JoinedStr):
                lines.append("".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                lines.append(node.value)
    return "\n".join(lines)


@pytest.mark.parametrize("error", ERRORS)
def test_documented_spark_errors_exist_in_the_code(error: str) -> None:
    assert error in texts()


def test_documentation_page_of_spark_failures_explains_over_20_errors() -> None:
    assert len(ERRORS) > 20


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`ottla ((?:[a-z]+ ?)+)", PAGE))))
def test_commands_on_the_documentation_page_of_spark_failures_exist(command: str) -> None:
    found: click.Command = root
    context = click.Context(root)
    for name in command.split():
        if not isinstance(found, click.Group):
            break
        child = found.get_command(context, name)
        assert child is not None, command
        found = child
