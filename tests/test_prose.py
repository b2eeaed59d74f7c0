"""Code, help and documentation use the words of the field, and not the private words that they once used.

The list of words is the glossary of CONTRIBUTING.md. It is not a list to search and replace: a sentence that needs one of these
words usually has to be written again.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
WORDS = {
    r"doors?": "control API",
    r"str(?:ikes?|uck)": "hit, triggered",
    r"who(?:ever|mever)": "the client, the member, the caller",
    r"(?:any|every|some|no)body": "the client, the member, the owner; unset",
    r"steer(?:s|ed|ing)?": "control",
    r"ow(?:e|ed|es|ing)": "pending",
    r"any more(?! than)": "no longer",
    r"neighbou?rs?": "other broker, adjacent",
    r"told": "answered, notified, reported",
}
"""Regular expressions of refused words, with the words to use instead."""
GENERATED = ROOT / "ottla/protocol/messages"
LONE_CLAUSE = re.compile(r"(?:Until|Those|What|Who|Where|Once|As long as)\b")
"""First words of a docstring that is only half a sentence and continues the function's name."""


class Text(NamedTuple):
    place: str
    text: str


@cache
def docstrings(path: Path) -> tuple[Text, ...]:
    return tuple(_docstrings(path))


def _docstrings(path: Path) -> Iterator[Text]:
    for node in ast.walk(ast.parse(path.read_text())):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                yield Text(f"{path.relative_to(ROOT)}:{statement.lineno}", statement.value.value)


@cache
def comments(path: Path) -> tuple[Text, ...]:
    return tuple(_comments(path))


def _comments(path: Path) -> Iterator[Text]:
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield Text(f"{path.relative_to(ROOT)}:{token.start[0]}", token.string)


@cache
def code() -> list[Path]:
    return [path for path in sorted((ROOT / "ottla").rglob("*.py")) if GENERATED not in path.parents]


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def without_code(text: str) -> str:
    """Return the text without code, paths and anchors."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.sub(r"``?[^`\n]*``?|\]\([^)]*\)|<a id=[^>]*>|https?://\S+", "", text)


@pytest.mark.parametrize(("word", "instead"), WORDS.items(), ids=WORDS.values())
def test_comments_and_docstrings_contain_no_discouraged_words(word: str, instead: str) -> None:
    pattern = re.compile(rf"\b{word}\b", re.IGNORECASE)
    found = [t for path in code() for t in (*docstrings(path), *comments(path)) if pattern.search(without_code(t.text))]
    assert found == [], f"instead: {instead}"


@pytest.mark.parametrize(("word", "instead"), WORDS.items(), ids=WORDS.values())
def test_documentation_pages_contain_no_discouraged_words(word: str, instead: str) -> None:
    pattern = re.compile(rf"\b{word}\b", re.IGNORECASE)
    found = [
        Text(f"{path.relative_to(ROOT)}:{number}", line)
        for path in pages()
        if path.name != "CONTRIBUTING.md"
        for number, line in enumerate(without_code(path.read_text()).splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == [], f"instead: {instead}"


def test_docstrings_are_whole_sentences() -> None:
    found = [t for path in code() for t in docstrings(path) if LONE_CLAUSE.match(t.text)]
    assert found == []


def test_test_names_contain_no_discouraged_words() -> None:
    pattern = re.compile(rf"(?:^|_)(?:{'|'.join(WORDS)}|who|gone|lies|stands)(?:_|$)")
    names = [
        Text(f"{path.relative_to(ROOT)}:{node.lineno}", node.name)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    ]
    assert [name for name in names if pattern.search(name.text)] == []
