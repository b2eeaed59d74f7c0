"""Hooks that mkdocs calls when it builds the documentation's site (``hooks`` in mkdocs.yml)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
_UPWARDS = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]+)(?:#[^)]*)?\)")


class DeadLink(Exception):
    """A page links to a file that the repository does not have."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace links to files outside of docs/ by their text, because the site does not have these files. Raises `DeadLink`."""

    def kept(link: re.Match[str]) -> str:
        text, target = link.groups()
        file = (DOCS / page.file.src_uri).parent.joinpath(target).resolve()
        if not file.exists():
            raise DeadLink(f"{page.file.src_uri} links to {target}, which is not there")
        return link.group() if file.is_relative_to(DOCS) else text

    return _UPWARDS.sub(kept, markdown)
