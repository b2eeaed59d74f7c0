"""Runs Apache Kafka's own assignors for many groups in a single Java process (Assign.java)."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.coordinator.group.assignors.members import Assignment, AssignorMember, in_topic_order
from tests.coordinator.assignors.groups import Group
from tools import java_programs, kafka

PROGRAM = Path(__file__).parent / "Assign.java"


@dataclass(frozen=True)
class Question:
    """A group for which Kafka's assignor is run. Only ``assignable`` partitions may be assigned; None means all partitions."""

    assignor: str
    group: Group
    assignable: Assignment | None = None


def asked(questions: Sequence[Question]) -> list[dict[str, Assignment]]:
    """Run Kafka's assignors. Returns one assignment per question, with the members in the order of ottla's assignors.

    Skips the test if Java or Kafka's jars are not available.
    """
    lines = "".join(json.dumps(_as_json(question)) + "\n" for question in questions)
    try:
        command = java_programs.command(PROGRAM, kafka.jars("all"), "-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1")
    except kafka.Unavailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    assert not done.returncode, done.stderr[-4000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [_assignments(answer, question.group.members) for answer, question in zip(answers, questions, strict=True)]


def _as_json(question: Question) -> dict[str, Any]:
    group = question.group
    return {
        "assignor": question.assignor,
        "partition_counts": {topic.hex(): count for topic, count in group.partition_counts.items()},
        "assignable": None if question.assignable is None else _partitions(question.assignable),
        "members": [
            {
                "id": member_id,
                "instance_id": group.members[member_id].instance_id,
                "subscribed": [topic.hex() for topic in in_topic_order(group.members[member_id].subscribed)],
                "assigned": _partitions(group.members[member_id].assigned),
            }
            for member_id in sorted(group.members)
        ],
    }


def _partitions(assignment: Assignment) -> dict[str, list[int]]:
    return {topic.hex(): sorted(assignment[topic]) for topic in in_topic_order(assignment)}


def _assignments(answer: dict[str, dict[str, list[int]]], member_ids: Iterable[str]) -> dict[str, Assignment]:
    """Normalize an assignment of Kafka, which may lack members without partitions or have topics without partitions."""
    return {
        member_id: {bytes.fromhex(topic): frozenset(of) for topic, of in answer.get(member_id, {}).items() if of}
        for member_id in member_ids
    }


def made_up(
    rng: random.Random,
    topics: Sequence[bytes],
    *,
    equal_subscriptions: bool,
    max_members: int = 30,
    max_partitions: int = 40,
    most_owners: int = 1,
) -> Group:
    """Return a random group. Partitions have up to ``most_owners`` previous owners, which may no longer subscribe to the topic."""
    member_ids = [f"{rng.choice('abc')}{number}" for number in range(rng.randint(1, max_members))]
    counts = {topic: rng.randint(1, max_partitions) for topic in topics}
    same = frozenset(topic for topic in topics if rng.random() < 0.8)
    hoarders = member_ids[: rng.randint(0, len(member_ids))]
    assigned: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in member_ids}
    for topic, count in counts.items():
        for partition in range(count):
            for owner in rng.sample(hoarders, rng.randint(0, min(most_owners, len(hoarders)))):
                assigned[owner].setdefault(topic, set()).add(partition)
    members: Mapping[str, AssignorMember] = {
        member_id: AssignorMember(
            subscribed=same if equal_subscriptions else frozenset(topic for topic in topics if rng.random() < 0.5),
            assigned={topic: frozenset(of) for topic, of in assigned[member_id].items()},
            instance_id=f"i{rng.randrange(10**6)}" if rng.random() < 0.3 else None,
        )
        for member_id in member_ids
    }
    return Group(dict(members), counts)
