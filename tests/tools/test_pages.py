"""The documentation's pages: generated pages equal the code, links work, and the site includes every page."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ottla.protocol.errors import Code
from tools import commands_page, compatibility, docs_site, metrics_page, settings_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {str(path.relative_to(DOCS)): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
SITE = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text())


@pytest.mark.parametrize(
    ("name", "page"),
    [("settings.md", settings_page.page), ("commands.md", commands_page.page), ("metrics.md", metrics_page.page)],
)
def test_generated_pages_are_up_to_date(name: str, page: Callable[[], str]) -> None:
    module = page.__module__
    assert PAGES[name] == page(), f"the page is outdated; run python -m {module}"


def test_compatibility_page_is_up_to_date_with_the_tested_client_versions() -> None:
    """The results on the page come from its last generation; rows, columns and versions come from the code. Each row has a test."""
    on_page = compatibility.results_on(PAGES["compatibility.md"])
    assert PAGES["compatibility.md"] == compatibility.document(on_page), "the page is outdated; run python -m tools.compatibility"
    known = {name: of() for name, of in compatibility.SECURED_CLIENTS.items()} | {
        name: of() for name, (_, of) in compatibility.OTHERS.items()
    }
    assert set(on_page.versions) == set(known)
    pinned = set(known) - {"confluent-kafka", "kafka-python", "aiokafka"}
    assert {name: on_page.versions[name] for name in pinned} == {name: known[name] for name in pinned}, (
        "the versions are outdated; run make compatibility"
    )
    for feature in compatibility.FEATURES:
        assert any(on_page.scores[feature, client] != compatibility.NO_TESTS for client in compatibility.CLIENTS), feature
    for score in [*on_page.scores.values(), *on_page.others.values()]:
        assert score == compatibility.NO_TESTS or len(set(score.split(" of "))) == 1, score


def test_compatibility_results_are_counted_by_client_and_feature() -> None:
    group = "tests/wire/test_clients.py::test_consumer_group_shares"
    found = compatibility.results_of(
        {
            f"{group}[java-classic]": "passed",
            f"{group}[java-consumer]": "failed",
            f"{group}[kafka-python-classic]": "skipped",
            "tests/wire/test_tools.py::test_x": "passed",
        }
    )
    assert found.scores["Groups of the classic protocol", "Java"] == "1 of 1"
    assert found.scores["Groups of KIP-848 (`group.protocol=consumer`)", "Java"] == "0 of 1"
    assert found.scores["Groups of the classic protocol", "kafka-python"] == compatibility.NO_TESTS
    assert found.others["Kafka's command line tools"] == "1 of 1"


def test_every_documentation_page_is_in_the_navigation_of_the_site() -> None:
    def files(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        entries = entry.values() if isinstance(entry, dict) else entry
        assert isinstance(entries, list | type({}.values()))
        return [file for one in entries for file in files(one)]

    assert sorted(files(SITE["nav"])) == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_links_of_documentation_pages_have_existing_targets(name: str) -> None:
    text = re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
        assert target.startswith("https://") or (DOCS / name).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_links_of_top_level_markdown_files_have_existing_targets(name: str) -> None:
    text = re.sub(r"```.*?```", "", (DOCS.parent / name).read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
        assert (DOCS.parent / target).exists(), target


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("x.md", "see [the map](../ARCHITECTURE.md#the-map).", "see the map."),
        (
            "internals/x.md",
            "see [the map](../../ARCHITECTURE.md#rooms) and [limits](../limits.md#disks).",
            "see the map and [limits](../limits.md#disks).",
        ),
    ],
)
def test_site_shows_a_link_out_of_the_docs_folder_as_text(page: str, text: str, expected: str) -> None:
    assert docs_site.without_links_upwards(text, DOCS / page) == expected


_FILE = re.compile(r"`((?:\w+/)+(?:\w+\.\w+)?|\w+\.py)`")
_ROOMS = ("", "ottla", "ottla/broker", "ottla/coordinator", "ottla/security", "ottla/spark")
"""Folders that file paths on pages about the code may be relative to."""


@pytest.mark.parametrize(
    "page",
    [DOCS.parent / "ARCHITECTURE.md", DOCS.parent / "CONTRIBUTING.md", *sorted(DOCS.glob("internals/*.md"))],
    ids=lambda page: page.name,
)
def test_files_named_by_pages_about_the_code_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    gone = [
        file
        for file in _FILE.findall(text)
        if not any((DOCS.parent / room / file).exists() for room in _ROOMS)
        and "NAME" not in file
        and not ("/" not in file and any((DOCS.parent / "ottla").rglob(file)))
    ]
    assert gone == []


def _texts() -> set[str]:
    """Return all string constants of ottla's code, with … in place of each interpolated value."""
    texts = set()
    for path in (DOCS.parent / "ottla").rglob("*.py"):
        if "messages" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "\u2026" for part in node.values)
                texts.add("".join(str(part) for part in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
    return texts


@pytest.mark.full
def test_messages_on_the_troubleshooting_page_exist_in_the_code() -> None:
    quoted = [
        message
        for line in PAGES["troubleshooting.md"].splitlines()
        if line.startswith("| `")
        for message in re.findall(r"`([^`]+)`", line.split(" | ")[0])
    ]
    assert len(quoted) > 40
    code = "\n".join(_texts())
    # A placeholder on the page may stand for interpolated values or for another message of the code.
    gone = [m for m in quoted if not re.search(re.escape(m.strip("\u2026 ")).replace("\u2026", ".*"), code)]
    assert gone == []


def test_documented_error_codes_exist_in_the_protocol() -> None:
    headings = re.findall(r"^## (.*)$", PAGES["troubleshooting.md"], re.MULTILINE)
    named = {name for heading in headings for name in re.findall(r"`([A-Z_]{8,})`", heading)}
    assert len(named) > 15
    assert named <= {code.name for code in Code}
