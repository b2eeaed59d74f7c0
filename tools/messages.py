"""Lists all texts that the code shows to people, so that they can be reviewed together: ``python -m tools.messages``.

A line is ``file:line  kind  text``, with values in braces. The kinds are ``log LEVEL`` (a log event with the constant texts of its
fields), the name of an exception, and ``output`` (printed by a command). Arguments are folders or files; the default is ``ottla``.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
REPEATED = {"failed": "warning", "bug": "exception"}
"""Methods of `RepeatedErrors` and `Lifecycle` that log an event, with their default levels."""
LOGGERS = frozenset({"log", "logger", "_log", "_logger"})
PRINTERS = frozenset({"echo", "note", "print", "print_error", "show_line", "show_note", "show_table"})
TEXT_KEYWORDS = frozenset({"error_message", "hint", "message", "reason"})
"""Keyword arguments whose text clients or people see, in calls of any function."""
LEFT_OUT = ("ottla/protocol/messages/", "ottla/simulation/")
"""Folders that are skipped: generated code, and code that is not shipped."""


class Message(NamedTuple):
    """A text in the code: file and line, kind, and the text with values in braces."""

    file: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.kind}  {self.text}"


def messages(paths: Iterable[Path], root: Path = ROOT) -> list[Message]:
    """Return the messages in Python files, in the order of the files. File names are relative to ``root``. Exceptions that are
    defined in one of the files are recognised in all files."""
    trees = {path: ast.parse(path.read_text()) for path in paths}
    exceptions = _exceptions(trees.values())
    return [message for path, tree in trees.items() for message in _of_file(str(path.relative_to(root)), tree, exceptions)]


def python_files(names: Iterable[str]) -> list[Path]:
    """Return the Python files that ``names`` contains, or that are in folders of ``names``."""
    found = (path for name in names for path in ([ROOT / name] if name.endswith(".py") else sorted((ROOT / name).rglob("*.py"))))
    return [path for path in found if not str(path.relative_to(ROOT)).startswith(LEFT_OUT)]


def _exceptions(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names of Python's exception classes, and of classes that derive from an exception class."""
    known = {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)}
    known |= {"BadParameter", "ClickException", "UsageError"}
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    while more := {node.name for node in classes if any(_name(base) in known for base in node.bases)} - known:
        known |= more
    return known


def _of_file(file: str, tree: ast.Module, exceptions: set[str]) -> Iterator[Message]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        name = _name(call.func)
        if name in LEVELS and isinstance(call.func, ast.Attribute) and _name(call.func.value) in LOGGERS:
            fields = [f"{k.arg}={text}" for k in call.keywords if k.arg and (text := _text(k.value)) is not None]
            event = _text(call.args[0]) if call.args else None
            yield Message(file, call.lineno, f"log {name}", " ".join([event or f"{{{ast.unparse(call.args[0])}}}", *fields]))
            continue
        if name in REPEATED and call.args and isinstance(event := getattr(call.args[0], "value", None), str):
            levels = [text for k in call.keywords if k.arg == "level" and (text := _text(k.value)) is not None]
            reasons = [text for value in call.args[1:] if (text := _text(value)) is not None]
            yield Message(file, call.lineno, f"log {levels[0] if levels else REPEATED[name]}", " ".join([event, *reasons]))
            continue
        if name in exceptions or name in PRINTERS:
            texts = [_text(value) for value in (*call.args, *(keyword.value for keyword in call.keywords))]
        else:
            texts = [_text(keyword.value) for keyword in call.keywords if keyword.arg in TEXT_KEYWORDS]
        if said := [text for text in texts if text and text.strip()]:
            yield Message(file, call.lineno, "output" if name in PRINTERS else name, "; ".join(said))


def _name(node: ast.expr) -> str:
    """Return the last part of a name: ``f`` for ``f``, ``a.f`` and ``a().f``."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr) -> str | None:
    """Return the text of an expression with its values in braces; None for an expression without a constant text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "" for part in parts)
        case ast.FormattedValue(value=value, conversion=conversion, format_spec=spec):
            how = ("" if conversion == -1 else f"!{chr(conversion)}") + ("" if spec is None else f":{_text(spec)}")
            return f"{{{ast.unparse(value)}{how}}}"
        case ast.BinOp(left=left, right=right):
            sides = _text(left), _text(right)
            return None if sides == (None, None) else "".join(side or "{...}" for side in sides)
        case ast.IfExp(body=body, orelse=orelse):
            choices = [text for text in (_text(body), _text(orelse)) if text]
            return " | ".join(choices) or None
    return None


def main(names: list[str]) -> int:
    for message in messages(python_files(names or ["ottla"])):
        print(message)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
