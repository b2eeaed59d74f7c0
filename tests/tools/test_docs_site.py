"""The documentation's site builds without warnings, and loads nothing from other hosts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_documentation_site_builds_without_warnings(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "tools.docs_site", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        elsewhere = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?(https?://[^\"' >]+)", page.read_text())
        assert elsewhere == [], page
