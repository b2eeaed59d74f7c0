"""Numbers in the README and in the documentation are equal to those in the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ottla.broker.config.settings import BrokerConfig
from ottla.broker.handlers.registry import SERVED
from ottla.broker.handlers.support.config_changes import MAX_CONFIGS
from ottla.broker.metadata.cluster import SUPPORTED_FEATURES
from ottla.broker.network.dispatch import ELEMENTS_AT_ONCE, ELEMENTS_OF_LARGE_FRAMES
from ottla.protocol.primitives import MAX_ELEMENTS, MAX_TAGGED_FIELDS
from ottla.protocol.validation import MAX_RECORD_ERRORS
from ottla.spark.versions import PINNED, packages_for
from tools.kafka import KAFKA_VERSION, RELEASES
from tools.rules import known

ROOT = Path(__file__).parent.parent
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30, "s": 1_000}
RULES = len(known())

CLAIMS = [
    (r"([\d,]+) APIs\b", len(SERVED), ("README.md", "CHANGELOG.md", "docs/features.md")),
    (r"([\d,]+) rules\b", RULES, ("README.md",)),
    (r"\| All \| ([\d,]+) \|", RULES, ("docs/conformance.md",)),
    (r"\| ([\d,]+) \| configs of one resource", MAX_CONFIGS, ("docs/limits.md",)),
    (r"one resource ([\d,]+) configs", MAX_CONFIGS, ("docs/differences.md",)),
    (r"may hold ([\d,]+) elements", MAX_ELEMENTS, ("docs/differences.md",)),
    (r"more than ([\d,]+) elements", ELEMENTS_AT_ONCE, ("docs/internals/long-work.md",)),
    (r"\(([\d,]+) in a frame over 1 MiB\)", ELEMENTS_OF_LARGE_FRAMES, ("docs/internals/long-work.md",)),
    (r"more than ([\d,]+) tagged fields", MAX_TAGGED_FIELDS, ("docs/differences.md",)),
    (r"tagged fields than a small bound \(([\d,]+)", MAX_TAGGED_FIELDS, ("docs/rules.md",)),
    (r"at most ([\d,]+) records are named", MAX_RECORD_ERRORS, ("docs/differences.md",)),
    (r"transaction\.version 0 to (\d+)", SUPPORTED_FEATURES["transaction.version"][1], ("README.md", "docs/features.md")),
]
"""Regular expression that captures a number in a sentence, the expected number, and the pages that must contain the sentence."""


@pytest.mark.parametrize(("pattern", "number", "pages"), CLAIMS, ids=[pattern for pattern, _, _ in CLAIMS])
def test_figure_is_equal_on_every_documentation_page_that_quotes_it(pattern: str, number: int, pages: tuple[str, ...]) -> None:
    numbers_by_page = {name: {int(digits.replace(",", "")) for digits in re.findall(pattern, text)} for name, text in PAGES.items()}
    assert all(numbers_by_page[name] for name in pages), "a page words it differently now"
    assert all(numbers <= {number} for numbers in numbers_by_page.values()), numbers_by_page


def test_limits_page_lists_the_default_of_each_setting() -> None:
    config = BrokerConfig({})
    rows = re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \| ([\d,]+(?: \w+)?(?:, [\d,]+ \w+)*) \|", PAGES["docs/limits.md"], re.MULTILINE)
    limits = {}
    for names, values in rows:
        for name, value in zip(re.findall(r"`([\w.]+)`", names), re.split(r", (?=\d+ )", values), strict=True):
            amount, _, unit = value.partition(" ")
            limits[name] = int(amount.replace(",", "")) * UNITS.get(unit, 1)
    assert len(limits) >= 9
    assert limits == {name: config.value(name) for name in limits}


def test_supported_python_spark_and_kafka_versions_are_equal_in_all_files() -> None:
    oldest = PROJECT["requires-python"].removeprefix(">=")
    tested = re.findall(
        r'"(3\.\d+)"', re.findall(r"^\s+python: \[.*$", (ROOT / ".github/workflows/tests.yml").read_text(), re.MULTILINE)[0]
    )
    named = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert tested == named
    assert named[0] == oldest
    for page in ("README.md", "CONTRIBUTING.md"):
        assert set(re.findall(r"Python ([\d.]+) or newer", PAGES[page])) == {oldest}
    assert ",".join(packages_for(PINNED)) in PAGES["docs/pipeline.md"]
    for page in ("README.md", "CHANGELOG.md", "docs/differences.md", "docs/features.md", "docs/conformance.md", "docs/rules.md"):
        named = set(re.findall(r"Apache Kafka (\d+\.\d+\.\d+)", PAGES[page].replace("\n", " ")))
        assert {KAFKA_VERSION} <= named <= set(RELEASES), page
