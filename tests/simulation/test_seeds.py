"""Seeds of a simulated world have no findings, plans that once failed no longer fail, and failing plans are shrunk."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ottla.broker.coordinators.lost_additions import LostAdditions
from ottla.simulation import plan as plans
from ottla.simulation.judging import judge
from ottla.simulation.plan import Plan, PlannedFault, decode, draw, encode
from ottla.simulation.running import CHUNK, RARE, Report, play, run, shrink
from tests.support.budgets import WithinBudget

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
SEEDS = int(os.environ.get("SIMULATED_SEEDS", "1000"))
SEEDS_A_STEP = 10


def failures(report: Report) -> list[str]:
    return [f"seed {verdict.plan.seed}: {finding}" for verdict in report.failed for finding in verdict.findings[:3]]


@pytest.mark.smoke
@pytest.mark.parametrize("first", [1, *(pytest.param(first, marks=pytest.mark.full) for first in range(1 + CHUNK, 51, CHUNK))])
def test_single_broker_simulations_of_some_seeds_have_no_findings(first: int) -> None:
    report = play(range(first, first + CHUNK), 30)
    assert failures(report) == []
    assert report.transactions >= 30 * CHUNK


@pytest.mark.full
@pytest.mark.long
def test_single_broker_simulations_of_many_seeds_reach_rare_states_without_findings(
    capsys: pytest.CaptureFixture[str], within_budget: WithinBudget
) -> None:
    """A run that stops early, because its time budget is spent, may miss rare states."""
    report = Report()
    for first in within_budget(range(1, SEEDS + 1, SEEDS_A_STEP), seconds=40, floor=2):
        report.add(run(range(first, min(first + SEEDS_A_STEP, SEEDS + 1)), processes=2))
    with capsys.disabled():
        print(f"\n{report.seeds} seeds, {report.transactions} transactions, {report.steps} steps")
        print({name: report.reached[name] for name in RARE})
    assert failures(report) == []
    assert report.seeds < SEEDS or report.missed == []


@pytest.mark.smoke
@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_formerly_failing_simulation_plan_has_no_findings(path: Path) -> None:
    assert judge(decode(path.read_bytes())).findings == []


@pytest.mark.smoke
def test_simulation_detects_that_a_lost_partition_of_a_transaction_is_not_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this plan a power cut keeps a batch and loses the record that adds its partition. No seed below 810 does so."""
    monkeypatch.setattr(LostAdditions, "find", lambda self, shards: None)
    (path,) = [path for path in REGRESSIONS if path.stem.startswith("a-batch-outlives")]
    assert judge(decode(path.read_bytes())).findings


def digest(seed: int) -> str:
    verdict = judge(draw(seed, 40))
    assert verdict.lines
    results = repr((verdict.lines, sorted(verdict.reached.items()), verdict.steps))
    return hashlib.sha256(results.encode()).hexdigest()


@pytest.mark.smoke
def test_single_broker_simulation_of_a_seed_is_reproducible() -> None:
    assert digest(12) == digest(12)
    assert digest(12) != digest(13)


@pytest.mark.full
def test_single_broker_simulation_of_a_seed_does_not_depend_on_pythonhashseed() -> None:
    results = set()
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-c", "from tests.simulation.test_seeds import digest; print([digest(s) for s in (1, 2, 3)])"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        results.add(subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True).stdout)
    assert len(results) == 1


def test_simulation_plan_is_determined_by_its_seed_and_survives_encoding() -> None:
    assert draw(5) == draw(5)
    assert draw(5) != msgspec.structs.replace(draw(6), seed=5)
    assert decode(encode(draw(5))) == draw(5)
    assert {fault.kind for seed in range(200) for fault in draw(seed).faults} == set(plans.SHARES)


def test_failing_simulation_plan_is_shrunk() -> None:
    """The shrunk plan has only the fault and the actor that make it fail."""
    plan = next(plan for plan in map(draw, range(100)) if any(fault.kind == plans.PAUSE for fault in plan.faults))
    (paused, *_) = [fault for fault in plan.faults if fault.kind == plans.PAUSE]
    needed = plan.actors[paused.actor]
    tried = 0

    def fails(smaller: Plan) -> bool:
        nonlocal tried
        tried += 1
        return smaller.transactions >= 10 and any(
            fault.kind == plans.PAUSE and fault.at_ms == paused.at_ms and smaller.actors[fault.actor] == needed
            for fault in smaller.faults
        )

    smallest = shrink(plan, fails)
    assert smallest.actors == (needed,)
    assert smallest.faults == (msgspec.structs.replace(paused, actor=0),)
    assert 10 <= smallest.transactions < 20
    assert tried < 200


def test_passing_simulation_plan_is_not_shrunk() -> None:
    plan = msgspec.structs.replace(draw(1), faults=(PlannedFault(kind=plans.KILL, at_ms=1),))
    assert shrink(plan, lambda smaller: False) == plan


def test_simulation_plan_without_faults_reaches_no_fault_states() -> None:
    verdict = judge(msgspec.structs.replace(draw(3, 30), faults=()))
    assert verdict.findings == []
    assert not [state for state in verdict.reached if state.startswith("fault")]
    assert verdict.outcomes["committed"] > 20
