"""Each mutant of ottla must make a scenario fail. A rule that can be broken without a failure is not covered by any test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.mutants.breaking import broken
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.player import NOTICED

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]


def play(entries: Iterable[str], file: str = MUTANTS[0].file, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the scenarios of these entries in a new process, on an ottla in which ``file`` has the source ``text``."""
    module = file.removesuffix(".py").replace("/", ".")
    command = [sys.executable, "-m", "tests.mutants.player", module, ",".join(entries)]
    return subprocess.run(command, cwd=ROOT, input=text, capture_output=True, encoding="utf-8", timeout=600, check=False)


def test_scenarios_that_catch_mutants_pass_with_unchanged_code() -> None:
    done = play(dict.fromkeys(entry for mutant in MUTANTS for entry in mutant.caught_by.split(" or ")))
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_mutant_is_caught_by_its_scenarios(mutant: Mutant) -> None:
    done = play(mutant.caught_by.split(" or "), mutant.file, broken((ROOT / mutant.file).read_text(), mutant))
    assert done.returncode == NOTICED, done.stdout[-2_000:] + done.stderr[-2_000:]
