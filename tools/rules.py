"""Parses the catalogue of rules in docs/rules.md, and finds the rules that have tests.

A line of the catalogue is ``- <a id="crd-12"></a>**CRD-12** Text of the rule.`` under the heading of a section. A test names its
rule by ``@pytest.mark.entry("CRD-12")``, a transcript in its head. tests/scenarios/not_run.txt lists the rules without a test, with
the reasons.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
CATALOGUE = ROOT / "docs" / "rules.md"
TESTS = ROOT / "tests"
NOT_RUN = TESTS / "scenarios" / "not_run.txt"
RULE = re.compile(r'^- <a id="([a-z]{3}-\d\d)"></a>\*\*([A-Z]{3}-\d\d)\*\* (.+)$')


def by_section(text: str | None = None) -> dict[str, dict[str, str]]:
    """Parse the rules, by section and id. Raises `ValueError` for a line that is not a rule."""
    sections: dict[str, dict[str, str]] = {}
    heading = ""
    for line in (CATALOGUE.read_text() if text is None else text).splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            sections[heading] = {}
        elif heading and line:
            match = RULE.match(line)
            if match is None or match[1] != match[2].lower() or any(match[2] in rules for rules in sections.values()):
                raise ValueError(f"no rule, a second one of its id, or an anchor that is not its id: {line}")
            sections[heading][match[2]] = match[3]
    return sections


def sections_of(letters: str) -> list[str]:
    """Return the headings of the sections with these letters, such as ``T,V``. Raises `ValueError` for an unknown letter."""
    by_letter = {heading.partition(".")[0]: heading for heading in by_section()}
    named = [letter.strip().upper() for letter in letters.split(",")]
    unknown = [letter for letter in named if letter not in by_letter]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no part of {CATALOGUE.name}; the parts are {', '.join(by_letter)}")
    return [by_letter[letter] for letter in named]


@cache
def known() -> frozenset[str]:
    return frozenset(rule for rules in by_section().values() for rule in rules)


def named_in(text: str) -> set[str]:
    """Find the rule ids in a text. Names such as KIP-98 look like ids, so an id must begin with the three letters of a known
    rule."""
    prefixes = "|".join(sorted({rule[:3] for rule in known()}))
    return set(re.findall(rf"\b(?:{prefixes})-\d+\b", text))


@cache
def marked() -> frozenset[str]:
    """Return the rules that have a test: the arguments of ``entry`` markers, and the heads of transcripts."""
    rules: set[str] = set()
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "entry":
                rules |= {str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)}
    for path in sorted([*(TESTS / "scenarios" / "transcripts").glob("*.txt"), *TESTS.rglob("transcript.txt")]):
        for line in path.read_text().splitlines():
            head = re.match(r"(?:[A-Z]{3}-\d\d )+", line)
            rules |= set(head[0].split()) if head else set()
    return frozenset(rules)


def not_run() -> dict[str, str]:
    """Return the rules without a test, with the reasons."""
    lines = (line.partition(": ") for line in NOT_RUN.read_text().splitlines() if line and not line.startswith("#"))
    return {rest.split(" ", 1)[0]: reason for reason, _, rest in lines}


def link(text: str) -> str:
    """Replace each rule id in a text by a link from a page in docs/ to the rule."""
    linked = {rule: f"[{rule}](rules.md#{rule.lower()})" for rule in known()}
    return re.sub(r"\b[A-Z]{3}-\d\d\b", lambda match: linked.get(match[0], match[0]), text)
