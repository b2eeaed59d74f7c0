"""docs/spark-failures.md explains each error of ottla.spark, and the errors and the commands of the page exist."""

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


RAISED = frozenset({"PipelineError", "MustAbort", "RuntimeError"})
"""The exceptions of a stream's last line. The subclasses of PipelineError in errors.py call ``super().__init__`` with a text."""
IN_ANOTHER_ENTRY = {
    "the checkpoint's …/… cannot be read: …": "cannot be read (…); foreachBatch reads it as Spark does",
    "has no offsets of batch …": "has no readable stream id",
    "has no offsets of any batch": "has no readable stream id",
    "the checkpoint's offsets of batch … cannot be read": "has no readable stream id",
    "the checkpoint's log of a file source cannot be read": "has no readable stream id",
    "option 'mark.topic' is …, which does not exist": "the stream reads no topic of …, and its rows choose their topics themselves",
    "was created, but … does not have it yet": "the progress topic … does not exist, and cannot be created",
    "does not read from a single Kafka source": "nothing was committed as …: neither the group …",
    "a stream uses …": "write_once has used …: give the stream another transactional.id",
    "column 'headers' is …": "column … is …; the sink accepts …",
    "Spark does not report whether stage … was restarted": "stage … was restarted, so its whole transaction is aborted",
    "Spark did not start": "Spark needs Java 17 or newer",
    "Spark … is not supported": "Spark needs Java 17 or newer",
    "retention has removed offset … during the read": "retention has removed the records between",
    "Restore the file, or stop the broker and examine the log": "its file is damaged or truncated",
    "and the topic was never compacted; restore its files": "its file is damaged or truncated",
    "is missing, but the partition had records": "its file is damaged or truncated",
    "…-… is not in …": "no partition of topic … is in …",
    "…-… is in … and in …: give one of them": "no partition of topic … is in …",
}
"""Errors with the cause and the steps of another heading: a part of the error, which the entry quotes, and the heading's error."""
OF_ARGUMENTS = frozenset(
    {
        "; give …, or a Registry",
        "are the same option",
        "belongs to a stream that does not read",
        "call start() before the next batch",
        "cannot replace their records: give mode('append')",
        "could be renewed, or start() was not called",
        "give earliest, latest or an offset a partition",
        "give plain columns as in",
        "have the same transactional.id",
        "is not a number",
        "is not read_committed or read_uncommitted",
        "maxOffsetsPerTrigger is 0",
        "needs a name and options for each sink",
        "needs a progress topic",
        "option … is …",
        "option 'progress.topic' is a topic that rows are written to",
        "option 'topic' is …, which is not in",
        "option … has … bytes",
        "the segment source has no",
        "the segment source needs the option",
        "the sink needs the option 'transactional.id'",
        "the source needs the option 'kafka.bootstrap.servers'",
        "the stream is stopping",
        "the transactional id … had expired",
        "write got frames for …",
        "needs the option …: a frame with a name",
    }
)
"""Parts of errors that name an option or an argument with what it accepts, and of errors that no stream ends with."""


@cache
def trees() -> list[ast.Module]:
    return [ast.parse(source.read_text()) for source in sorted((ROOT / "ottla" / "spark").rglob("*.py"))]


def text_of(node: ast.AST) -> str | None:
    """Return a text of the code with an ellipsis for each value; None for a node that is not a text."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@cache
def texts() -> str:
    """Return all message texts of the library, one per line, with an ellipsis for each value."""
    found = (text_of(node) for tree in trees() for node in ast.walk(tree))
    return "\n".join(text for text in found if text is not None)


@cache
def named_texts() -> dict[str, list[str]]:
    """Return the texts that a constant has or that a function returns, by name."""
    named: dict[str, list[str]] = {}
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                (target, *_) = node.targets if isinstance(node, ast.Assign) else [node.target]
                name = ast.unparse(target)
                values: list[tuple[str, ast.AST | None]] = [(name, node.value)] if name.isupper() else []
            elif isinstance(node, ast.FunctionDef):
                values = [(node.name, inner.value) for inner in ast.walk(node) if isinstance(inner, ast.Return)]
            else:
                continue
            for name, value in values:
                if value is not None and (text := text_of(value)):
                    named.setdefault(name, []).append(text)
    return named


@cache
def raised() -> list[str]:
    """Return the texts of all errors that ottla.spark raises. An error whose text is another error's is left out."""
    found: set[str] = set()
    for tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args or ast.unparse(node.func) not in RAISED | {"super().__init__"}:
                continue
            (argument, *_) = node.args
            text = text_of(argument)
            name = ast.unparse(argument.func) if isinstance(argument, ast.Call) else ast.unparse(argument)
            constants = [inner.id for inner in ast.walk(argument) if isinstance(inner, ast.Name) and inner.id in named_texts()]
            if text is None:
                found.update(named_texts().get(name, []))
            else:
                found.add(" ".join([*(named_texts()[constant][0] for constant in constants), text]))
    return sorted(text for text in found if re.search(r"[a-z]", text))


@pytest.mark.parametrize("error", ERRORS)
def test_documented_spark_errors_exist_in_the_code(error: str) -> None:
    assert error in texts()


def test_documentation_page_of_spark_failures_explains_over_60_errors() -> None:
    assert len(ERRORS) > 60
    assert len(raised()) > 90


@pytest.mark.parametrize("error", raised())
def test_spark_error_has_an_entry_on_the_documentation_page(error: str) -> None:
    known = [*ERRORS, *IN_ANOTHER_ENTRY, *OF_ARGUMENTS]
    assert any(part in error for part in known), "docs/spark-failures.md needs an entry with the cause and the steps"


@pytest.mark.parametrize("part", sorted({*IN_ANOTHER_ENTRY, *OF_ARGUMENTS}))
def test_spark_error_without_an_entry_of_its_own_exists_in_the_code(part: str) -> None:
    assert any(part in error and not any(heading in error for heading in ERRORS) for error in raised())


@pytest.mark.parametrize(("part", "heading"), sorted(IN_ANOTHER_ENTRY.items()))
def test_entry_quotes_the_other_spark_errors_that_it_explains(part: str, heading: str) -> None:
    entry = PAGE.partition(f"### `{heading}`\n")[2].partition("\n##")[0]
    assert part in " ".join(entry.split())


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
