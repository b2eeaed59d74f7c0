"""Sets of tasks: one task is a partition of a subtopology (TasksTuple and TasksTupleWithEpochs of Kafka)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

TaskId = tuple[str, int]
"""The id of a task: subtopology id and partition."""
TaskSet = Mapping[str, frozenset[int]]
"""Partitions by subtopology id. Subtopologies without partitions are left out."""
TaskEpochs = Mapping[str, Mapping[int, int]]
"""Like `TaskSet`, with the assignment epoch at which the member got each task."""


class Tasks(msgspec.Struct, frozen=True):
    """A member's target tasks, or the tasks that it lists as its own."""

    active: TaskSet = {}
    standby: TaskSet = {}
    warmup: TaskSet = {}


class AssignedTasks(msgspec.Struct, frozen=True):
    """Tasks that a member has, or must give up. Active tasks have assignment epochs, by which commits are fenced."""

    active: TaskEpochs = {}
    standby: TaskSet = {}
    warmup: TaskSet = {}

    @property
    def is_empty(self) -> bool:
        return not self.active and not self.standby and not self.warmup

    def meets(self, owned: Tasks) -> bool:
        """Whether ``owned`` and ``self`` have a task in common, in the same role."""
        return (
            any(owned.active.get(subtopology, frozenset()) & epochs.keys() for subtopology, epochs in self.active.items())
            or _overlap(owned.standby, self.standby)
            or _overlap(owned.warmup, self.warmup)
        )

    def contains(self, owned: Tasks) -> bool:
        """Whether all tasks of ``owned`` are in ``self``, in the same role."""
        return (
            all(subtopology in self.active and p <= self.active[subtopology].keys() for subtopology, p in owned.active.items())
            and _is_part(owned.standby, self.standby)
            and _is_part(owned.warmup, self.warmup)
        )

    def united(self, other: AssignedTasks) -> AssignedTasks:
        active = {subtopology: dict(epochs) for subtopology, epochs in self.active.items()}
        for subtopology, epochs in other.active.items():
            active.setdefault(subtopology, {}).update(epochs)
        return AssignedTasks(active, united(self.standby, other.standby), united(self.warmup, other.warmup))

    def with_epochs_reset(self) -> AssignedTasks:
        """Return the tasks of a static member that leaves temporarily. Its successor may commit for them at any epoch."""
        active = {subtopology: dict.fromkeys(epochs, 0) for subtopology, epochs in self.active.items()}
        return AssignedTasks(active, self.standby, self.warmup)


def united(some: TaskSet, others: TaskSet) -> dict[str, frozenset[int]]:
    return {
        subtopology: some.get(subtopology, frozenset()) | others.get(subtopology, frozenset())
        for subtopology in dict.fromkeys([*some, *others])
    }


def without_epochs(tasks: TaskEpochs) -> dict[str, frozenset[int]]:
    return {subtopology: frozenset(epochs) for subtopology, epochs in tasks.items()}


def as_task_set(tasks: Iterable[TaskId]) -> dict[str, frozenset[int]]:
    partitions: dict[str, set[int]] = {}
    for subtopology, partition in tasks:
        partitions.setdefault(subtopology, set()).add(partition)
    return {subtopology: frozenset(indexes) for subtopology, indexes in partitions.items()}


def _overlap(some: TaskSet, others: TaskSet) -> bool:
    return any(partitions & others.get(subtopology, frozenset()) for subtopology, partitions in some.items())


def _is_part(some: TaskSet, others: TaskSet) -> bool:
    return all(subtopology in others and partitions <= others[subtopology] for subtopology, partitions in some.items())


def task_ids(make: Any, tasks: TaskSet) -> list[Any]:
    """Return the tasks as structs of Kafka's messages, built by ``make``."""
    return [make(subtopology_id=subtopology, partitions=sorted(tasks[subtopology])) for subtopology in sorted(tasks)]
