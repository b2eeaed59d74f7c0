"""Transcripts for three brokers, on ottla and on Apache Kafka.

All cases of a target share its brokers. They run one after the other, because brokers fail in them. Before each case, all brokers
are restarted or resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.ahead import Part, perform
from tests.scenarios.judging import judge
from tests.scenarios.script import FOLDER, SEVERAL, Answers, Scenario, case_name, load
from tests.scenarios.several import SeveralTarget, start
from tools.kafka import Unavailable

SCENARIOS = [scenario for file in sorted(FOLDER.glob("*.txt")) for scenario in load(file) if scenario.broker == SEVERAL]

LONG = {"crash", "shut_down", "boot", "pause"}


def _marks(target: str, scenario: Scenario) -> list[pytest.MarkDecorator]:
    """Mark ottla's cases as full if a broker fails in them: they wait for sessions to expire, so ``make test`` omits them."""
    if target == "kafka":
        return [pytest.mark.wire, pytest.mark.full, pytest.mark.java]
    is_long = any(step.command.split()[0] in LONG for step in scenario.steps)
    return [pytest.mark.wire, *([pytest.mark.full] if is_long else [])]


def _parameters() -> Iterator[object]:
    for target in ("ottla", "kafka"):
        for scenario in SCENARIOS:
            for case in scenario.cases:
                name = f"{target}-{scenario.name}" + (f"-{case_name(case)}" if case else "")
                yield pytest.param(target, scenario, case, id=name, marks=_marks(target, scenario))


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, SeveralTarget]]:
    """Running clusters by target. Each is started when it is first needed."""
    started: dict[str, SeveralTarget] = {}
    yield started
    for cluster in started.values():
        cluster.close()


@pytest.mark.transcript
@pytest.mark.parametrize(("target", "scenario", "case"), list(_parameters()))
def test_cluster_responses_equal_those_of_the_transcript(
    target: str,
    scenario: Scenario,
    case: dict[str, str],
    clusters: dict[str, SeveralTarget],
    rewriting: dict[Path, dict[int, Answers]] | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    if target not in clusters:
        try:
            clusters[target] = start(target, tmp_path_factory.mktemp("several"))
        except Unavailable as missing:
            pytest.skip(f"Apache Kafka: {missing}")
    cluster = clusters[target]
    cluster.heal()
    judge(target, scenario, case, lambda: perform(Part(target, scenario, case), cluster), rewriting)
