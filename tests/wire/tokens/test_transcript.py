"""ottla and Apache Kafka answer requests about delegation tokens alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.wire.tokens import brokers
from tests.wire.tokens.brokers import Addresses
from tests.wire.tokens.commands import Story

pytestmark = [pytest.mark.wire]

TRANSCRIPT = Path(__file__).parent / "transcript.txt"
WITHOUT_KEY = "without a key"


class Line(NamedTuple):
    """A command of the transcript, its outcome, and its index in the file."""

    at: int
    command: str
    outcome: str


class Case(NamedTuple):
    title: str
    has_key: bool
    lines: list[Line]


def cases() -> list[Case]:
    read: list[Case] = []
    has_key = True
    for at, line in enumerate(TRANSCRIPT.read_text().splitlines()):
        if line == WITHOUT_KEY:
            has_key = False
        elif line.startswith("  "):
            command, _, outcome = line.strip().partition(" -> ")
            read[-1].lines.append(Line(at, command.strip(), outcome))
        elif line and not line.startswith("#"):
            read.append(Case(line, has_key, []))
    return read


CASES = [pytest.param(case, id=case.title, marks=pytest.mark.entry(case.title.split()[0])) for case in cases()]


@pytest.fixture(scope="module")
def written(request: pytest.FixtureRequest) -> Iterator[dict[int, str] | None]:
    """Outcomes by line if ``--rewrite`` was passed, which the end of the run writes into the transcript."""
    if not request.config.getoption("--rewrite"):
        yield None
        return
    outcomes: dict[int, str] = {}
    yield outcomes
    lines = TRANSCRIPT.read_text().splitlines()
    for at, outcome in outcomes.items():
        lines[at] = f"{re.sub(' -> .*', '', lines[at])} -> {outcome}"
    TRANSCRIPT.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Addresses]]:
    directory = tmp_path_factory.mktemp("ottla")
    with brokers.ottla(directory / "key", has_key=True) as with_key, brokers.ottla(directory / "none", has_key=False) as without:
        yield {True: with_key, False: without}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Addresses]]:
    directory = tmp_path_factory.mktemp("kafka")
    with brokers.kafka(directory / "key", has_key=True) as with_key, brokers.kafka(directory / "none", has_key=False) as without:
        yield {True: with_key, False: without}


def play(case: Case, addresses: dict[bool, Addresses]) -> list[str]:
    story = Story(addresses[case.has_key])
    try:
        return [story.run(line.command) for line in case.lines]
    finally:
        story.close()


@pytest.mark.parametrize("case", CASES)
def test_ottla_answers_delegation_token_requests_as_in_the_transcript(ottla: dict[bool, Addresses], case: Case) -> None:
    assert play(case, ottla) == [line.outcome for line in case.lines]


@pytest.mark.java
@pytest.mark.target("kafka")
@pytest.mark.parametrize("case", CASES)
def test_kafka_answers_delegation_token_requests_as_in_the_transcript(
    kafka: dict[bool, Addresses], written: dict[int, str] | None, case: Case
) -> None:
    outcomes = play(case, kafka)
    if written is not None:
        written |= {line.at: outcome for line, outcome in zip(case.lines, outcomes, strict=True)}
        return
    assert outcomes == [line.outcome for line in case.lines]
