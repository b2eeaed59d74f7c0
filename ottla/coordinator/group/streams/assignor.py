"""Assigns the tasks of a streams group to its members (StickyTaskAssignor of Kafka 4.4's group coordinator).

An active task stays with its member, or goes to a member that has its state, as far as the members' shares allow. The remaining
tasks go to the process with the least load. Standbys are placed in the same way, never on a process that already has the task.
Racks and client tags are ignored, and there are no warm-up tasks yet: the AssignmentRefiner of Kafka 4.4 does not change targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ottla.coordinator.group.streams.configuration import ConfiguredSubtopology
from ottla.coordinator.group.streams.java_order import JavaQueue, computed_order, hash_order
from ottla.coordinator.group.streams.tasks import TaskId, Tasks, TaskSet, as_task_set

NO_LOAD = float("inf")


class TaskMember(msgspec.Struct, frozen=True):
    """A member as the assignor sees it: its process, its current tasks, and the offsets of its state stores."""

    process_id: str
    active: TaskSet = {}
    standby: TaskSet = {}
    task_offsets: Mapping[str, Mapping[int, int]] = {}


def assign(
    members: Mapping[str, TaskMember], subtopologies: Mapping[str, ConfiguredSubtopology], standby_replica_count: int
) -> dict[str, Tasks]:
    """Return a target, possibly empty, for each member."""
    if not members:
        return {}
    return _Assignment(members, subtopologies, standby_replica_count).result()


class _Process:
    """The members of one process. The process's load is its number of tasks per member."""

    __slots__ = ("_members_by_load", "active", "process_id", "standby", "task_counts", "tasks")

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.task_counts: dict[str, int] = {}
        self.active: dict[str, set[TaskId]] = {}
        self.standby: dict[str, set[TaskId]] = {}
        self.tasks: set[TaskId] = set()
        self._members_by_load: JavaQueue[str] | None = None

    def join(self, member_id: str) -> None:
        self.task_counts[member_id] = 0
        self.active[member_id], self.standby[member_id] = set(), set()

    @property
    def load(self) -> float:
        return sum(self.task_counts.values()) / len(self.task_counts)

    def give(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        """Assign a task to a member. Returns the member's new number of tasks."""
        self._members_by_load = None
        return self._give(member_id, task, is_active)

    def give_to_least_loaded(self, task: TaskId, *, is_active: bool) -> int:
        if self._members_by_load is None:
            self._members_by_load = JavaQueue()
            for member_id in hash_order(self.task_counts):
                self._members_by_load.push(self.task_counts[member_id], member_id)
        member_id = self._members_by_load.pop()
        count = self._give(member_id, task, is_active)
        self._members_by_load.push(count, member_id)
        return count

    def _give(self, member_id: str, task: TaskId, is_active: bool) -> int:
        (self.active if is_active else self.standby)[member_id].add(task)
        self.tasks.add(task)
        self.task_counts[member_id] += 1
        return self.task_counts[member_id]


class _Share:
    """Limits the tasks per member: the tasks that members at the limit do not have, divided by the number of other members."""

    __slots__ = ("_member_count", "_task_count", "limit")

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count, self._member_count = task_count, member_count
        self.limit = self._spread()

    def _spread(self) -> int:
        return -(-self._task_count // self._member_count) if self._member_count > 0 else 0

    def note(self, member_task_count: int) -> None:
        """Record a member's number of tasks. A member that has reached the limit gets no further tasks, and the limit is computed
        again."""
        if member_task_count == self.limit:
            self._member_count -= 1
            self._task_count -= member_task_count
            self.limit = self._spread()


class _Assignment:
    def __init__(
        self, members: Mapping[str, TaskMember], subtopologies: Mapping[str, ConfiguredSubtopology], standby_replica_count: int
    ) -> None:
        self._members, self._standby_replica_count = members, standby_replica_count
        self._all_tasks = [(i, p) for i, one in subtopologies.items() for p in range(one.task_count)]
        self._stateful_tasks = [task for task in self._all_tasks if subtopologies[task[0]].is_stateful]
        standby_count = len(self._stateful_tasks) * standby_replica_count
        self._active_share = _Share(len(self._all_tasks), len(members))
        self._total_share = _Share(len(self._all_tasks) + standby_count, len(members))
        self._processes: dict[str, _Process] = {}
        self._runs: dict[TaskId, str] = {}
        self._has_state: dict[TaskId, list[str]] = {}
        self._take_in()

    def _take_in(self) -> None:
        candidates: dict[TaskId, list[tuple[bool, int, str]]] = {}
        for member_id in hash_order(self._members):
            member = self._members[member_id]
            self._processes.setdefault(member.process_id, _Process(member.process_id)).join(member_id)
            self._runs.update(dict.fromkeys(_task_ids(member.active), member_id))
            standbys = set(_task_ids(member.standby))
            offsets = {(i, p): offset for i, by_partition in member.task_offsets.items() for p, offset in by_partition.items()}
            for task in standbys:
                candidates.setdefault(task, []).append((False, -offsets.get(task, 0), member_id))
            for task in offsets.keys() - standbys:
                candidates.setdefault(task, []).append((True, -offsets[task], member_id))
        # Of the members that have a task's state, those with a standby come first, then those with the highest store offset. The
        # sort is stable.
        self._has_state = {task: [c[2] for c in sorted(members, key=lambda c: c[:2])] for task, members in candidates.items()}
        process_ids = [self._members[member_id].process_id for member_id in hash_order(self._members)]
        self._processes = {i: self._processes[i] for i in computed_order(process_ids, len(self._members))}

    def result(self) -> dict[str, Tasks]:
        self._assign_active()
        if self._standby_replica_count > 0:
            self._assign_standbys()
        given = {}
        for member_id, member in self._members.items():
            process = self._processes[member.process_id]
            given[member_id] = Tasks(as_task_set(process.active[member_id]), as_task_set(process.standby[member_id]))
        return given

    # assigning active tasks

    def _assign_active(self) -> None:
        left = []
        for task in sorted(self._all_tasks, key=_by_partition):
            runs = self._runs.get(task)
            if runs is None or not self._give_active(runs, task):
                left.append(task)
        waiting = []
        for task in left:
            has_state = self._least_loaded(self._has_state.get(task, ()))
            if has_state is None or not self._give_active(has_state, task):
                waiting.append(task)
        queue = self._processes_by_load()
        for task in sorted(waiting):
            process = queue.pop()
            count = process.give_to_least_loaded(task, is_active=True)
            self._active_share.note(count)
            self._total_share.note(count)
            queue.push(process.load, process)

    def _give_active(self, member_id: str, task: TaskId) -> bool:
        process = self._process_of(member_id)
        if process.task_counts[member_id] >= self._active_share.limit:
            return False
        count = process.give(member_id, task, is_active=True)
        self._active_share.note(count)
        self._total_share.note(count)
        return True

    # assigning standby tasks

    def _assign_standbys(self) -> None:
        waiting: list[tuple[TaskId, int]] = []
        for task in sorted(self._stateful_tasks, key=_by_partition, reverse=True):
            for replica in range(self._standby_replica_count):
                if not self._give_standby_to_holder(task):
                    waiting.append((task, self._standby_replica_count - replica))
                    break
        queue = self._processes_by_load()
        for task, replica_count in sorted(waiting, reverse=True):
            for _ in range(replica_count):
                # There are fewer standbys than configured if every process already has the task.
                if not self._give_standby_to_least_loaded(task, queue):
                    break

    def _give_standby_to_holder(self, task: TaskId) -> bool:
        runs = self._runs.get(task)
        if runs is not None and self._give_standby(runs, task):
            return True
        has_state = self._least_loaded(self._has_state.get(task, ()), without=task)
        return has_state is not None and self._give_standby(has_state, task)

    def _give_standby(self, member_id: str, task: TaskId) -> bool:
        process = self._process_of(member_id)
        if task in process.tasks or process.task_counts[member_id] >= self._total_share.limit:
            return False
        self._total_share.note(process.give(member_id, task, is_active=False))
        return True

    def _give_standby_to_least_loaded(self, task: TaskId, queue: JavaQueue[_Process]) -> bool:
        """Give the standby task to the first process in the queue that does not have it. As in Kafka, the processes taken from the
        queue are put back in reverse order."""
        passed = []
        is_given = False
        while queue and not is_given:
            process = queue.pop()
            passed.append(process)
            if task not in process.tasks:
                self._total_share.note(process.give_to_least_loaded(task, is_active=False))
                is_given = True
        for process in reversed(passed):
            queue.push(process.load, process)
        return is_given

    def _least_loaded(self, member_ids: Iterable[str], without: TaskId | None = None) -> str | None:
        """Return the first member, unless the process of a later member has less load and that member has fewer tasks."""
        chosen = None
        process_load, task_count = NO_LOAD, NO_LOAD
        for member_id in member_ids:
            process = self._process_of(member_id)
            if without is not None and without in process.tasks:
                continue
            own_count = process.task_counts[member_id]
            if chosen is None or (process.load < process_load and own_count < task_count):
                chosen, process_load, task_count = member_id, process.load, own_count
        return chosen

    def _process_of(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    def _processes_by_load(self) -> JavaQueue[_Process]:
        queue: JavaQueue[_Process] = JavaQueue()
        for process in self._processes.values():
            queue.push(process.load, process)
        return queue


def _task_ids(tasks: TaskSet) -> Iterable[TaskId]:
    return ((subtopology, partition) for subtopology, partitions in tasks.items() for partition in partitions)


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task[1], task[0]
