"""Bare imports, which load a package without modules that a broker process does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from ottla.cli.imports import import_bare
{}
"""


def run(text: str) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(text)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_that_skips_a_packages_init_file_provides_the_requested_members() -> None:
    text = """
import_bare("crc32c", crc32c="crc32c._crc32c")
from crc32c import crc32c
print(crc32c(b"123456789") == 0xE3069283, "importlib.metadata" in sys.modules)
"""
    assert run(text) == "True False"


@pytest.mark.parametrize("members", ["crc32c='crc32c.nowhere'", "nothing='crc32c._crc32c'"])
def test_import_that_cannot_skip_a_packages_init_file_is_a_normal_import(members: str) -> None:
    """Other versions of a package may lack the submodules or members that a bare import expects."""
    text = f"""
import_bare("crc32c", {members})
from crc32c import crc32c
print(crc32c(b"123456789") == 0xE3069283)
"""
    assert run(text) == "True"


def test_import_that_skips_init_files_changes_no_missing_or_imported_package() -> None:
    assert run("import json, json as before; import_bare('json'); import_bare('no_such'); print(json is before)") == "True"
