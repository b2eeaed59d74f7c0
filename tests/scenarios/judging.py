"""Compares the responses of a transcript case with the transcript, or stores them if transcripts are rewritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.play import NotOffered, Played, compare
from tests.scenarios.script import Answers, Scenario


def judge(
    target: str,
    scenario: Scenario,
    case: dict[str, str],
    play: Callable[[], list[Played]],
    rewriting: dict[Path, dict[int, Answers]] | None,
) -> None:
    """Run a case, and compare its responses with the transcript, or store them if transcripts are rewritten.

    Raises `Differs`, and any exception of the case. A case that the tested release of Apache Kafka does not support is skipped.
    """
    try:
        played = play()
    except NotOffered as missing:
        if target != "kafka":
            raise
        pytest.skip(f"not offered by this Apache Kafka: {missing}")
    if rewriting is not None:
        for one in played:
            rewriting[scenario.file][one.step.line].append((case, one.answer))
        return
    compare(scenario, case, target, played)
