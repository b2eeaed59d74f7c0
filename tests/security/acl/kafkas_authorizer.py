"""Runs Apache Kafka's own authorizer for many sets of ACLs in a single Java process (Authorize.java)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.security.acl.acls import Check, Question
from tools import java_programs, kafka

PROGRAM = Path(__file__).parent / "Authorize.java"


def kafkas_answers(questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Return the results of Kafka's authorizer, one per question. Skips the test if Java or Kafka's jars are not available."""
    lines = "".join(json.dumps(_as_json(question)) + "\n" for question in questions)
    try:
        command = java_programs.command(PROGRAM, kafka.jars("all"), "-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1")
    except kafka.Unavailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    assert not done.returncode, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _as_json(question: Question) -> dict[str, Any]:
    return {
        "super_users": question.super_users,
        "allows_without_acl": str(question.allows_without_acl).lower(),
        "acls": question.acls,
        "checks": [_check(check) for check in question.checks],
        "by_type": [_check(check) for check in question.by_type],
        "filters": question.filters,
    }


def _check(check: Check) -> list[Any]:
    return [check.principal.type, check.principal.name, check.host, check.operation, check.resource_type, check.name]
