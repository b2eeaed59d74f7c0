"""Runs Apache Kafka's own quota managers for many sequences of steps in a single Java process (Quotas.java)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tools import java_programs, kafka

PROGRAM = Path(__file__).parent / "Quotas.java"


def kafkas_results(questions: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Return the results of each sequence of steps. Skips the test if Java or Kafka's jars are not available."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    try:
        command = java_programs.command(PROGRAM, kafka.jars("all"), "-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1")
    except kafka.Unavailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    assert not done.returncode, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
