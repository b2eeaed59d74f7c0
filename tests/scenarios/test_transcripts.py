"""Every entry of the catalogue that is written as a transcript, against ottla and against Apache Kafka itself."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.scenarios.brokers import TARGETS, Target
from tests.scenarios.play import compare, play
from tests.scenarios.script import FOLDER, Scenario, case_name, load, rewrite

SCENARIOS = [scenario for file in sorted(FOLDER.glob("*.txt")) for scenario in load(file)]


def _marks(target: str, scenario: Scenario) -> list[pytest.MarkDecorator]:
    """Everything runs simulated; over sockets what stops the broker does, and under ``make test-all`` the rest."""
    if target == "simulated":
        return []
    if target == "kafka":
        return [pytest.mark.wire, pytest.mark.slow, pytest.mark.java]
    stops = any(word in step.command.split() for step in scenario.steps for word in ("restart", "kill", "$how"))
    return [pytest.mark.wire] if stops else [pytest.mark.wire, pytest.mark.slow]


def _parameters() -> Iterator[object]:
    for target in TARGETS:
        for scenario in SCENARIOS:
            marks = _marks(target, scenario)
            for case in scenario.cases:
                name = f"{target}-{scenario.entries[0]}" + (f"-{case_name(case)}" if case else "")
                yield pytest.param(target, scenario, case, id=name, marks=marks)


@pytest.fixture(scope="session")
def rewriting(request: pytest.FixtureRequest) -> Iterator[dict[Path, dict[int, list[tuple[dict[str, str], str]]]] | None]:
    """With ``--rewrite``: what was answered, by file and line, written into the files at the end."""
    if not request.config.getoption("--rewrite"):
        yield None
        return
    answers: dict[Path, dict[int, list[tuple[dict[str, str], str]]]] = defaultdict(lambda: defaultdict(list))
    yield answers
    for file, given in answers.items():
        rewrite(file, given)


@pytest.mark.transcript
@pytest.mark.parametrize(("target", "scenario", "case"), list(_parameters()))
def test_transcript(
    target: str,
    scenario: Scenario,
    case: dict[str, str],
    broker_of: Callable[[str, str], Target],
    rewriting: dict[Path, dict[int, list[tuple[dict[str, str], str]]]] | None,
) -> None:
    broker = broker_of(target, scenario.broker)
    prefix = f"{scenario.entries[0].lower()}-{uuid.uuid4().hex[:6]}-"
    played = play(scenario, case, broker, target, prefix)
    if rewriting is not None:
        for one in played:
            rewriting[scenario.file][one.step.line].append((case, one.answer))
        return
    compare(scenario, case, target, played)


TOLD_APART = [s for s in SCENARIOS if any(f"{who}: " in (step.expected or "") for step in s.steps for who in ("ottla", "kafka"))]


@pytest.mark.parametrize("differing", TOLD_APART, ids=lambda s: " ".join(s.entries))
def test_a_difference_has_its_reason(differing: Scenario) -> None:
    assert differing.differs
