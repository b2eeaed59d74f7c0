"""The documentation's pages: generated ones are what the code says, links lead somewhere, and no page is left out of the site."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from ottla.protocol.errors import Code
from tools import commands_page, metrics_page, settings_page, site_hooks

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {path.name: path.read_text() for path in sorted(DOCS.glob("*.md"))}
SITE = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text())


@pytest.mark.parametrize(
    ("name", "page"),
    [("settings.md", settings_page.page), ("commands.md", commands_page.page), ("metrics.md", metrics_page.page)],
)
def test_a_generated_page_is_what_the_code_says(name: str, page: Callable[[], str]) -> None:
    module = page.__module__
    assert PAGES[name] == page(), f"write it anew: python -m {module}"


def test_each_page_is_on_the_site() -> None:
    def files(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        entries = entry.values() if isinstance(entry, dict) else entry
        assert isinstance(entries, list | type({}.values()))
        return [file for one in entries for file in files(one)]

    assert sorted(files(SITE["nav"])) == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    text = re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
        assert target.startswith("https://") or (DOCS / target).exists(), target


def test_a_link_out_of_the_docs_becomes_its_text() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="x.md"))
    assert site_hooks.on_page_markdown("see [the map](../ARCHITECTURE.md#the-map).", page=page) == "see the map."
    with pytest.raises(site_hooks.DeadLink):
        site_hooks.on_page_markdown("[gone](../gone.md)", page=page)


def test_errors_to_look_up_are_those_of_the_protocol() -> None:
    headings = re.findall(r"^## (.*)$", PAGES["troubleshooting.md"], re.MULTILINE)
    named = {name for heading in headings for name in re.findall(r"`([A-Z_]{8,})`", heading)}
    assert len(named) > 15
    # A client's name for INVALID_PRODUCER_EPOCH too.
    assert named <= {code.name for code in Code}
