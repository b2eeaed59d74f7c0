"""Every rule of the catalogue that is written as a transcript, on ottla and on Apache Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.scenarios.ahead import Ahead, Part
from tests.scenarios.brokers import TARGETS, Brokers
from tests.scenarios.judging import judge
from tests.scenarios.script import FOLDER, SEVERAL, Answers, Scenario, case_name, choose, load, rewrite, steps_of, tells_apart
from tools.kafka import ORACLE_VERSION

SCENARIOS = [scenario for file in sorted(FOLDER.glob("*.txt")) for scenario in load(file) if scenario.broker != SEVERAL]

STARTS = re.compile(r"(restart|kill)\b")
"""Regular expression for commands that restart a broker."""


def _marks(target: str, scenario: Scenario, case: dict[str, str]) -> list[pytest.MarkDecorator]:
    """Mark a case with its level.

    On the simulated broker, scenarios that restart a broker are marked smoke, because a restart takes as long as ten other
    scenarios. Cases on Apache Kafka are marked long, because the first test that requests a result runs all of them in minutes.
    """
    if target == "simulated":
        if case not in (scenario.cases[0], scenario.cases[-1]):
            return [pytest.mark.full]
        return [pytest.mark.smoke] if any(STARTS.match(step.command) for step in scenario.steps) else []
    if target == "kafka":
        marks = [pytest.mark.wire, pytest.mark.full, pytest.mark.long, pytest.mark.java]
        if not scenario.is_of(ORACLE_VERSION):
            marks.append(pytest.mark.skip(reason=f"since {scenario.since}"))
        return marks
    return [pytest.mark.wire]


def _parameters() -> Iterator[object]:
    for target in TARGETS:
        for scenario in SCENARIOS:
            for case in scenario.cases:
                name = f"{target}-{scenario.name}" + (f"-{case_name(case)}" if case else "")
                yield pytest.param(target, scenario, case, id=name, marks=_marks(target, scenario, case))


@pytest.fixture(scope="session")
def ahead(request: pytest.FixtureRequest, brokers: Brokers) -> Ahead:
    """Results of all cases in this session. An xdist worker assumes that it gets all cases of a broker."""
    items = [i for i in request.session.items if i.get_closest_marker("transcript") and not i.get_closest_marker("skip")]
    params = {item.nodeid: item.callspec.params for item in items if isinstance(item, pytest.Function)}
    return Ahead({name: Part(p["target"], p["scenario"], p["case"]) for name, p in params.items()}, brokers)


@pytest.mark.transcript
@pytest.mark.parametrize(("target", "scenario", "case"), list(_parameters()))
def test_broker_responses_equal_those_of_the_transcript(
    target: str,
    scenario: Scenario,
    case: dict[str, str],
    ahead: Ahead,
    rewriting: dict[Path, dict[int, Answers]] | None,
    request: pytest.FixtureRequest,
) -> None:
    judge(target, scenario, case, lambda: ahead.answers(request.node.nodeid), rewriting)


TOLD_APART = [s for s in SCENARIOS if any(tells_apart(step.expected or "") for step in s.steps)]


@pytest.mark.parametrize("differing", TOLD_APART, ids=lambda s: s.name)
def test_every_difference_from_kafka_in_a_transcript_has_a_reason(differing: Scenario) -> None:
    assert differing.differs


def test_expected_response_of_a_transcript_may_be_specific_to_a_release() -> None:
    newest = f"kafka-{ORACLE_VERSION}"
    for expected in (f"ottla kafka-1.0.0: NONE ; {newest}: LATE", f"ottla: NONE ; kafka-1.0.0 v=3: OTHER ; {newest} v=3: LATE"):
        assert tells_apart(expected)
        assert choose(expected, {"v": "3"}, "kafka") == "LATE"
    assert choose(f"{newest}: LATE ; NONE", {}, "ottla") == "NONE"
    assert choose("kafka-1.0.0: LATE ; NONE", {}, "kafka") == "NONE"
    assert not tells_apart("v=3: NONE ; LATE")


def test_transcript_command_may_be_limited_to_some_cases(tmp_path: Path) -> None:
    file = tmp_path / "transcript.txt"
    file.write_text("API Metadata: topics [v=0-2,9]\n  a\n  v=1-9: b -> v=1,2: ONE ; TWO\n  ottla: c\n")
    (scenario,) = load(file)
    assert (scenario.name, scenario.entries, scenario.title) == ("API Metadata", (), "topics")
    assert [case["v"] for case in scenario.cases] == ["0", "1", "2", "9"]
    commands = {case["v"]: [step.command for step in steps_of(scenario, case, "kafka")] for case in scenario.cases}
    assert commands == {"0": ["a"], "1": ["a", "b"], "2": ["a", "b"], "9": ["a", "b"]}
    assert [step.command for step in steps_of(scenario, {"v": "0"}, "simulated")] == ["a", "c"]


def test_transcript_responses_are_written_with_ranges_of_request_versions(tmp_path: Path) -> None:
    file = tmp_path / "transcript.txt"
    file.write_text("API Metadata: topics [v=0-7]\n  v=0-7: a -> ?\n")
    rewrite(file, {1: [({"v": str(v)}, "ONE" if v in (0, 1, 3, 4, 5) else "TWO") for v in range(8)]})
    command, _, answer = file.read_text().splitlines()[1].partition(" -> ")
    assert (command.strip(), answer) == ("v=0-7: a", "v=2,6,7: TWO ; ONE")


def test_transcript_responses_of_an_older_release_are_written_next_to_the_newest(tmp_path: Path) -> None:
    file = tmp_path / "transcript.txt"
    file.write_text("GRP-01 who\n  a\n  b -> v=3: ONE ; TWO\n  c -> *\n  d -> ottla: ONE ; kafka: TWO\n")
    answers: dict[int, Answers] = {
        1: [({"v": "3"}, "LATE"), ({"v": "4"}, "LATE")],
        2: [({"v": "3"}, "ONE"), ({"v": "4"}, "LATE")],
        3: [({"v": "3"}, "ONE"), ({"v": "4"}, "TWO")],
        4: [({"v": "3"}, "LATE"), ({"v": "4"}, "LATE")],
    }
    rewrite(file, answers, "1.0.0")
    assert [line.partition(" -> ")[2] for line in file.read_text().splitlines()[1:]] == [
        "kafka-1.0.0: LATE ; NONE",
        "kafka-1.0.0 v=4: LATE ; v=3: ONE ; TWO",
        "*",
        "ottla: ONE ; kafka: TWO",
    ]


def test_transcript_may_require_a_newer_kafka_release() -> None:
    (known,) = load(FOLDER / "a_idempotence.txt")[:1]
    newer = replace(known, since="4.4.0, static members")
    assert all(known.is_of(release) for release in ("4.3.1", "4.4.0"))
    assert [newer.is_of(release) for release in ("4.3.1", "4.4.0", "4.10.0")] == [False, True, True]
