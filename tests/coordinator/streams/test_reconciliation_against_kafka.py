"""A member reconciles with its target in the same steps as in Apache Kafka's CurrentAssignmentBuilder (4.4.0)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from ottla.coordinator.group.streams.member import StreamsGroupMember, state_of
from ottla.coordinator.group.streams.reconciliation import reconciled
from ottla.coordinator.group.streams.tasks import AssignedTasks, TaskId, Tasks
from ottla.protocol.errors import Code, KafkaError
from tests.coordinator.streams.kafka import questions


def task_set(tasks: dict[str, list[int]]) -> dict[str, frozenset[int]]:
    return {subtopology: frozenset(partitions) for subtopology, partitions in tasks.items()}


def tasks(asked: dict[str, Any]) -> Tasks:
    return Tasks(task_set(asked["active"]), task_set(asked["standby"]), task_set(asked["warmup"]))


def assigned(asked: dict[str, Any]) -> AssignedTasks:
    active = {i: {int(p): epoch for p, epoch in epochs.items()} for i, epochs in asked["active"].items()}
    return AssignedTasks(active, task_set(asked["standby"]), task_set(asked["warmup"]))


class Holders:
    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked

    def _of(self, role: str, task: TaskId) -> list[str]:
        found: list[str] = self._asked[role].get(task[0], {}).get(str(task[1]), [])
        return found

    def active_process(self, task: TaskId) -> str | None:
        return next(iter(self._of("active", task)), None)

    def standby_processes(self, task: TaskId) -> Collection[str]:
        return self._of("standby", task)

    def warmup_processes(self, task: TaskId) -> Collection[str]:
        return self._of("warmup", task)


def answered(question: questions.Question) -> StreamsGroupMember | None:
    asked = question["member"]
    member = StreamsGroupMember(
        member_id="m",
        process_id="p0",
        member_epoch=asked["epoch"],
        previous_epoch=asked["previous"],
        state=state_of(asked["state"]),
        assigned=assigned(asked["assigned"]),
        revoking=assigned(asked["pending"]),
    )
    owned = None if question["owned"] is None else tasks(question["owned"])
    try:
        return reconciled(member, question["epoch"], tasks(question["target"]), Holders(question["holders"]), owned)
    except KafkaError as error:
        assert error.code is Code.FENCED_MEMBER_EPOCH
        return None


@pytest.mark.parametrize("tenth", range(10))
def test_streams_reconciliation_steps_equal_those_of_kafka(tenth: int) -> None:
    for question, answer in questions.read("reconcile")[tenth::10]:
        member = answered(question)
        if member is None:
            assert answer == {"error": "FencedMemberEpochException"}, question
            continue
        assert answer == {
            "epoch": member.member_epoch,
            "previous": member.previous_epoch,
            "state": member.state,
            "assigned": answer["assigned"],
            "pending": answer["pending"],
        }, question
        assert member.assigned == assigned(answer["assigned"]), question
        assert member.revoking == assigned(answer["pending"]), question
