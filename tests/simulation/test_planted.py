"""Each planted fault is detected by a seed. A fault that no seed detects would also go unnoticed if ottla itself had it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.mutants.mutants import Mutant
from tests.mutants.player import NOTICED
from tests.simulation.planted import OF_SCENARIOS, OWN, PLANTED, ROOT
from tests.simulation.planted_clusters import CLUSTER

pytestmark = [pytest.mark.nightly, pytest.mark.long]


def test_every_fault_planted_for_the_simulation_is_listed() -> None:
    assert len(PLANTED) == len(OF_SCENARIOS) + len(OWN) + len(CLUSTER)


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.name)
def test_each_planted_fault_is_caught_by_a_simulation_seed(mutant: Mutant, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "tests.simulation.planted", mutant.name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=1_200, check=False)
    assert done.returncode == NOTICED, done.stdout[-2_000:] + done.stderr[-2_000:]
    with capsys.disabled():
        print(f"\n{mutant.name}: {done.stdout.strip()[:200]}")
