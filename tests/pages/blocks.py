"""The fenced blocks of the pages that people read, and what each becomes when it is run."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "examples/README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))
_FENCE = re.compile(
    r'^ *```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^ *```$',
    re.DOTALL | re.MULTILINE,
)
_NAME_CHARACTERS = 60


class Block(msgspec.Struct, frozen=True):
    """A fenced block of a page: its language, the file that it is shown as, and its lines."""

    page: str
    language: str
    title: str | None
    text: str

    @property
    def name(self) -> tuple[str, str]:
        """The page and how the first line begins, without what follows two blanks: by these the catalogue names a block."""
        return self.page, re.split(r"\n|  ", self.text.strip())[0][:_NAME_CHARACTERS]


def blocks(page: str) -> list[Block]:
    """All of a page, by its path from the root."""
    return [
        Block(page=page, language=fence["language"], title=fence["title"], text=fence["text"])
        for fence in _FENCE.finditer((ROOT / page).read_text())
    ]


def block(name: tuple[str, str]) -> Block:
    """The one of this name."""
    (one,) = (candidate for candidate in blocks(name[0]) if candidate.name == name)
    return one
