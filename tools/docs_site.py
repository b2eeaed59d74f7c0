"""Builds the documentation's site: ``python -m tools.docs_site [DIRECTORY]``, by default into ``.cache/docs/site``.

The pages link to files of the repository that the site does not have. zensical cannot change pages while it builds, so the pages
are copied into the directory first, with the text of these links instead of the links.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
_UPWARDS = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]+)(?:#[^)]*)?\)")


def main(directory: Path) -> int:
    """Build the site into ``directory / "site"``. Returns the exit code of zensical, for which a warning is an error."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(DOCS, directory / "docs")
    shutil.copy(ROOT / "mkdocs.yml", directory)
    for page in DOCS.rglob("*.md"):
        (directory / "docs" / page.relative_to(DOCS)).write_text(without_links_upwards(page.read_text(), page))
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "-f", str(directory / "mkdocs.yml")]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def without_links_upwards(markdown: str, page: Path) -> str:
    """Return the Markdown of a page in which links to files outside of docs/ are replaced by their text."""

    def kept(link: re.Match[str]) -> str:
        text, target = link.groups()
        return link.group() if page.parent.joinpath(target).resolve().is_relative_to(DOCS) else text

    return _UPWARDS.sub(kept, markdown)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".cache" / "docs"))
