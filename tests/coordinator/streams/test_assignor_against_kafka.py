"""The task assignor returns the same assignments as Apache Kafka's StickyTaskAssignor (4.4.0)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.streams.assignor import TaskMember, assign
from ottla.coordinator.group.streams.configuration import ConfiguredSubtopology, InternalTopic
from ottla.coordinator.group.streams.tasks import TaskSet
from tests.coordinator.streams.kafka import questions

CHANGELOG = {"c": InternalTopic("c", 1, 0, {})}


def task_set(tasks: dict[str, list[int]]) -> dict[str, frozenset[int]]:
    return {subtopology: frozenset(partitions) for subtopology, partitions in tasks.items()}


def plain(tasks: TaskSet) -> dict[str, list[int]]:
    return {subtopology: sorted(partitions) for subtopology, partitions in tasks.items()}


def answered(question: questions.Question) -> dict[str, Any]:
    subtopologies = {
        i: ConfiguredSubtopology(count, changelogs=CHANGELOG if is_stateful else {})
        for i, (count, is_stateful) in question["subtopologies"].items()
    }
    members = {
        member_id: TaskMember(
            process_id=member["process"],
            active=task_set(member["active"]),
            standby=task_set(member["standby"]),
            task_offsets={i: {int(p): offset for p, offset in found.items()} for i, found in member["offsets"].items()},
        )
        for member_id, member in question["members"]
    }
    assigned = assign(members, subtopologies, question["standbys"])
    return {member_id: {"active": plain(t.active), "standby": plain(t.standby)} for member_id, t in assigned.items()}


@pytest.mark.parametrize("tenth", range(10))
def test_streams_task_assignments_equal_those_of_kafka(tenth: int) -> None:
    for question, answer in questions.read("assign")[tenth::10]:
        assert answered(question) == answer, question
