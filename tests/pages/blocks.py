"""The fenced code blocks of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
EXAMPLES = ("examples/README.md", "examples/spark-shop/README.md")
PAGES = ("README.md", *EXAMPLES, *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))
_FENCE = re.compile(
    r'^ *```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^ *```$',
    re.DOTALL | re.MULTILINE,
)
_NAME_CHARACTERS = 60


class Block(msgspec.Struct, frozen=True):
    """A fenced block of a page. ``title`` is the name of the file that the block shows, if any."""

    page: str
    language: str
    title: str | None
    text: str

    @property
    def name(self) -> tuple[str, str]:
        """Return the page and the beginning of the first line, up to two spaces. The catalogue identifies blocks by this name."""
        return self.page, re.split(r"\n|  ", self.text.strip())[0][:_NAME_CHARACTERS]


def blocks(page: str) -> list[Block]:
    """Return all blocks of a page. The path of the page is relative to the repository."""
    return [
        Block(page=page, language=fence["language"], title=fence["title"], text=fence["text"])
        for fence in _FENCE.finditer((ROOT / page).read_text())
    ]


def block(name: tuple[str, str]) -> Block:
    (one,) = (candidate for candidate in blocks(name[0]) if candidate.name == name)
    return one
