"""The code that each planted fault replaces still exists.

The tests that plant the faults would show this as well, but they are slow and run only in `make nightly`.
"""

from __future__ import annotations

import pytest

from tests.mutants.breaking import broken
from tests.mutants.mutants import Mutant
from tests.mutants.test_breaking import same
from tests.simulation.planted import CAUGHT_BEFORE_BY, PLANTED, ROOT


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_every_fault_planted_for_the_simulation_changes_the_code(fault: Mutant) -> None:
    sound = (ROOT / fault.file).read_text()
    assert not same(broken(sound, fault), sound)


def test_every_seed_listed_as_catching_a_fault_names_a_planted_fault() -> None:
    assert set(CAUGHT_BEFORE_BY) <= {fault.name for fault in PLANTED}
