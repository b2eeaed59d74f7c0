"""A mutant replaces exactly the code that it names, however that code is formatted."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.breaking import Unmatched, broken
from tests.mutants.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
SOURCE = """
LIMIT = 5

class Log:
    def append(self, size):
        if (
            size > LIMIT  # too large
            and self.is_open
        ):
            return None
        self.sync()
        return size

    def read(self, size):
        while size > LIMIT:
            size -= 1
        self.sync()
        self.sync()
        return size
"""


def changed(function: str, old: str, new: str) -> str:
    return broken(SOURCE, Mutant("a mutant", file="log.py", function=function, old=old, new=new, caught_by=""))


def same(one: str, other: str) -> bool:
    return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_every_mutant_changes_the_code(mutant: Mutant) -> None:
    sound = (ROOT / mutant.file).read_text()
    assert not same(broken(sound, mutant), sound)


def test_mutant_ignores_formatting_and_comments() -> None:
    text = changed("Log.append", "size > LIMIT and self.is_open", "size > LIMIT")
    assert same(text, SOURCE.replace("            and self.is_open\n", ""))


def test_mutant_may_replace_part_of_an_expression() -> None:
    assert same(changed("Log.append", "size > LIMIT", "size > 9"), SOURCE.replace("size > LIMIT  # too", "size > 9  # too"))


def test_mutant_may_replace_or_remove_statements() -> None:
    more = changed("Log.append", "self.sync()\nreturn size", "if size:\n    return size\nreturn 0")
    assert same(
        more,
        SOURCE.replace(
            "        self.sync()\n        return size", "        if size:\n            return size\n        return 0", 1
        ),
    )
    assert "LIMIT = 6" in changed("", "LIMIT = 5", "LIMIT = 6")
    assert changed("Log.append", "self.sync()", "").count("sync") == 2


def test_python_block_emptied_by_a_mutant_gets_a_pass_statement() -> None:
    assert "pass" in changed("Log.read", "size -= 1", "")


@pytest.mark.parametrize(
    ("function", "old"),
    [
        ("Log.append", "size > 7"),
        ("Log.write", "size > LIMIT"),
        ("Log.read", "self.is_open"),
        ("", "size > LIMIT"),
        ("Log", "return size"),
        ("Log.read", "self.sync()"),
    ],
    ids=[
        "no such code",
        "no such function",
        "in another function",
        "twice in the module",
        "twice in the class",
        "twice in a block",
    ],
)
@pytest.mark.parametrize("new", ["False", "pass"])
def test_mutant_of_code_that_does_not_occur_exactly_once_is_refused(function: str, old: str, new: str) -> None:
    with pytest.raises(Unmatched):
        changed(function, old, new)
