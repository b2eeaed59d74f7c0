"""Each mutant of ottla must fail the scenarios: a rule that can be broken unnoticed is not held by any test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.breaking import broken
from tests.mutants.mutants import MUTANTS, Mutant

pytestmark = [pytest.mark.slow, pytest.mark.heavy]

ROOT = Path(__file__).parents[2]
FOLDERS = ("ottla", "tools", "tests")
SOME_FAILED = 1


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project that may be broken."""
    tree = tmp_path_factory.mktemp("mutants")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


def play(tree: Path, selection: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", "tests/scenarios/test_transcripts.py"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    return subprocess.run(
        [*command, "-k", f"simulated and ({selection})"],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_scenarios_notice(tree: Path, mutant: Mutant) -> None:
    path = tree / mutant.file
    sound = path.read_text()
    path.write_text(broken(sound, mutant))
    try:
        done = play(tree, mutant.caught_by)
    finally:
        path.write_text(sound)
    assert done.returncode == SOME_FAILED, done.stdout[-2_000:] + done.stderr[-2_000:]
    assert "Differs" in done.stdout or "KafkaError" in done.stdout, done.stdout[-2_000:]


def test_the_sound_tree_passes(tree: Path) -> None:
    selection = " or ".join(m.caught_by for m in MUTANTS)
    done = play(tree, selection)
    assert done.returncode == 0, done.stdout[-2_000:]
