"""Moves a member from its current tasks to its target tasks (CurrentAssignmentBuilder of Kafka 4.4).

A member gets a task only when the task is free: an active task when no member of the group runs it, and any task when no other
member of the same process has it in any role, because members of a process share its state directory. A member gives up tasks
first: it does not reach its target until it confirms that it no longer owns them.

| current state | condition at the heartbeat | result |
|---|---|---|
| STABLE | the member is at the target's epoch | unchanged |
| STABLE | the member is at another epoch | the next assignment |
| UNREVOKED_TASKS | the member owns tasks to give up, or does not list them | unchanged |
| UNREVOKED_TASKS | the member owns no tasks to give up | the next assignment, at the next epoch if it has more to give up |
| UNRELEASED_TASKS | any | the next assignment |
| UNKNOWN (a record of a newer broker) | the member owns nothing | the next assignment |
| UNKNOWN | anything else | FENCED_MEMBER_EPOCH |

The next assignment is UNREVOKED_TASKS at the member's epoch if the member has tasks to give up. Otherwise it has the target's epoch
and is UNRELEASED_TASKS if other members hold tasks of the target, else STABLE.

Within one member a task may change its role without being given up: from active to standby, between standby and warm-up, and from
either to active. Until a task becomes active the member keeps it in its old role.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec

from ottla.coordinator.group.streams.member import StreamsGroupMember, StreamsMemberState
from ottla.coordinator.group.streams.tasks import AssignedTasks, TaskId, Tasks, TaskSet, as_task_set
from ottla.protocol.errors import Code, KafkaError


class TaskHolders(Protocol):
    """The processes that hold a task, including tasks that their members must give up."""

    def active_process(self, task: TaskId) -> str | None: ...

    def standby_processes(self, task: TaskId) -> Collection[str]: ...

    def warmup_processes(self, task: TaskId) -> Collection[str]: ...


def reconciled(
    member: StreamsGroupMember, target_epoch: int, target: Tasks, holders: TaskHolders, owned: Tasks | None
) -> StreamsGroupMember:
    """Return the member after a heartbeat. ``owned``: its listed tasks, None without a list. Raises FENCED_MEMBER_EPOCH."""
    epoch = member.member_epoch
    match member.state:
        case StreamsMemberState.STABLE if epoch == target_epoch:
            return member
        case StreamsMemberState.UNREVOKED_TASKS:
            if _may_own(member.revoking, owned):
                return member
            epoch += 1
        case StreamsMemberState.UNKNOWN:
            if owned is None or owned != Tasks():
                message = "The streams group member is in an unknown state. It must abandon all its tasks and rejoin."
                raise KafkaError(Code.FENCED_MEMBER_EPOCH, message)
            epoch = target_epoch
    return _Step(member, target_epoch, target, holders, owned).member_at(epoch)


def _may_own(tasks: AssignedTasks, owned: Tasks | None) -> bool:
    return owned is None or tasks.meets(owned)


class _Step:
    """One step of a member towards its target: the tasks that it keeps, must give up, and gets, each by role."""

    def __init__(
        self, member: StreamsGroupMember, target_epoch: int, target: Tasks, holders: TaskHolders, owned: Tasks | None
    ) -> None:
        self._member, self._target_epoch, self._holders, self._owned = member, target_epoch, holders, owned
        self._epochs = {(i, p): epoch for i, epochs in member.assigned.active.items() for p, epoch in epochs.items()}
        self._active, self._standby, self._warmup = set(self._epochs), _ids(member.assigned.standby), _ids(member.assigned.warmup)
        self._target_active = _ids(target.active)
        wanted_standby, wanted_warmup = _ids(target.standby), _ids(target.warmup)

        self._kept_active = self._active & self._target_active
        self._kept_standby, self._kept_warmup = self._standby & wanted_standby, self._warmup & wanted_warmup
        self._revoking_active = self._active - self._target_active
        self._revoking_standby, self._revoking_warmup = self._standby - wanted_standby, self._warmup - wanted_warmup
        getting_active = self._target_active - self._active
        getting_standby, getting_warmup = wanted_standby - self._standby, wanted_warmup - self._warmup

        self._getting_active = {task for task in getting_active if not self._is_active_unreleased(task)}
        self._getting_standby = {task for task in getting_standby if not self._is_standby_unreleased(task)}
        self._getting_warmup = {task for task in getting_warmup if not self._is_warmup_unreleased(task)}
        self._has_unreleased = (len(getting_active), len(getting_standby), len(getting_warmup)) != (
            len(self._getting_active),
            len(self._getting_standby),
            len(self._getting_warmup),
        )

    # finding out whether other members hold a task

    def _is_active_unreleased(self, task: TaskId) -> bool:
        runs = self._holders.active_process(task)
        return runs is not None or self._is_standby_beside(task) or self._is_warmup_beside(task)

    def _is_standby_unreleased(self, task: TaskId) -> bool:
        own = self._member.process_id
        runs_beside = self._holders.active_process(task) == own and task not in self._active
        return runs_beside or own in self._holders.standby_processes(task) or self._is_warmup_beside(task)

    def _is_warmup_unreleased(self, task: TaskId) -> bool:
        own = self._member.process_id
        runs = self._holders.active_process(task) == own
        return runs or self._is_standby_beside(task) or own in self._holders.warmup_processes(task)

    def _is_standby_beside(self, task: TaskId) -> bool:
        return task not in self._standby and self._member.process_id in self._holders.standby_processes(task)

    def _is_warmup_beside(self, task: TaskId) -> bool:
        return task not in self._warmup and self._member.process_id in self._holders.warmup_processes(task)

    # computing the member's next assignment

    def member_at(self, epoch: int) -> StreamsGroupMember:
        """Return the member after the step. While the member has tasks to give up, its epoch is ``epoch``."""
        self._change_roles()
        revoking = self._with_epochs(self._revoking_active, self._revoking_standby, self._revoking_warmup)
        has_to_revoke = not revoking.is_empty and _may_own(revoking, self._owned)
        # A standby or warm-up task that will become active keeps its role until then.
        promoted = set() if has_to_revoke else self._getting_active
        self._kept_standby |= (self._standby & self._target_active) - promoted
        self._kept_warmup |= (self._warmup & self._target_active) - promoted
        kept = self._with_epochs(self._kept_active, self._kept_standby, self._kept_warmup)
        if has_to_revoke:
            return self._changed(StreamsMemberState.UNREVOKED_TASKS, epoch, kept, revoking)
        getting_active: dict[str, dict[int, int]] = {}
        for subtopology, partition in self._getting_active:
            getting_active.setdefault(subtopology, {})[partition] = self._target_epoch
        getting = AssignedTasks(getting_active, as_task_set(self._getting_standby), as_task_set(self._getting_warmup))
        state = StreamsMemberState.UNRELEASED_TASKS if self._has_unreleased else StreamsMemberState.STABLE
        return self._changed(state, self._target_epoch, kept.united(getting), AssignedTasks())

    def _change_roles(self) -> None:
        demoted = self._active & self._getting_standby
        self._getting_standby -= demoted
        self._kept_standby |= demoted
        to_warmup = self._standby & self._getting_warmup
        self._getting_warmup -= to_warmup
        self._kept_warmup |= to_warmup
        self._revoking_standby -= to_warmup
        to_standby = self._warmup & self._getting_standby
        self._getting_standby -= to_standby
        self._kept_standby |= to_standby
        self._revoking_warmup -= to_standby
        self._revoking_standby -= self._target_active
        self._revoking_warmup -= self._target_active

    def _with_epochs(self, active: set[TaskId], standby: set[TaskId], warmup: set[TaskId]) -> AssignedTasks:
        epochs: dict[str, dict[int, int]] = {}
        for task in active:
            epochs.setdefault(task[0], {})[task[1]] = self._epochs[task]
        return AssignedTasks(epochs, as_task_set(standby), as_task_set(warmup))

    def _changed(
        self, state: StreamsMemberState, epoch: int, assigned: AssignedTasks, revoking: AssignedTasks
    ) -> StreamsGroupMember:
        return msgspec.structs.replace(
            self._member,
            state=state,
            member_epoch=epoch,
            previous_epoch=self._member.member_epoch,
            assigned=assigned,
            revoking=revoking,
        )


def _ids(tasks: TaskSet) -> set[TaskId]:
    return {(subtopology, partition) for subtopology, partitions in tasks.items() for partition in partitions}
