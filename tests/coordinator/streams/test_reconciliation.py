"""Reconciliation of one streams group member with its target, as a table of steps, including role changes of tasks."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.streams.group import Holders
from ottla.coordinator.group.streams.member import StreamsGroupMember, StreamsMemberState
from ottla.coordinator.group.streams.reconciliation import reconciled
from ottla.coordinator.group.streams.tasks import AssignedTasks, Tasks
from ottla.protocol.errors import Code, KafkaError

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = StreamsMemberState
NOTHING, NOTHING_ASSIGNED = Tasks(), AssignedTasks()


def tasks(active: str = "", standby: str = "", warmup: str = "") -> Tasks:
    """Return tasks of subtopology 0. For example, ``tasks("01", "2")`` has active tasks 0 and 1 and standby task 2."""
    return Tasks(*({"0": frozenset(map(int, role))} if role else {} for role in (active, standby, warmup)))


def assigned(active: str = "", standby: str = "", warmup: str = "", epoch: int = 1) -> AssignedTasks:
    plain = tasks(active, standby, warmup)
    return AssignedTasks({i: dict.fromkeys(p, epoch) for i, p in plain.active.items()}, plain.standby, plain.warmup)


def member(
    state: StreamsMemberState, has: AssignedTasks, gives_up: AssignedTasks = NOTHING_ASSIGNED, epoch: int = 1
) -> StreamsGroupMember:
    return StreamsGroupMember("m", member_epoch=epoch, state=state, process_id="p", assigned=has, revoking=gives_up)


def step(
    before: StreamsGroupMember, target: Tasks, owned: Tasks | None, others: dict[str, AssignedTasks] | None = None
) -> tuple[object, ...]:
    """Reconcile a member with the target of epoch 2, while ``others`` have tasks.

    Returns its state, its member epoch, its assigned tasks and the tasks that it has to revoke.
    """
    holders = Holders()
    for held in (before.assigned, before.revoking):
        holders.hold(before.process_id, held)
    for process_id, held in (others or {}).items():
        holders.hold(process_id, held)
    after = reconciled(before, 2, target, holders, owned)
    return after.state, after.member_epoch, _plain(after.assigned), _plain(after.revoking)


def _plain(held: AssignedTasks) -> str:
    active = "".join(map(str, sorted(held.active.get("0", {}))))
    standby, warmup = ("".join(map(str, sorted(role.get("0", ())))) for role in (held.standby, held.warmup))
    return f"{active}/{standby}/{warmup}".rstrip("/")


TABLE = {
    "stable, and something is free": (member(STABLE, assigned("0")), tasks("01"), tasks("0"), {}, (STABLE, 2, "01", "")),
    "stable, and something is with another": (
        member(STABLE, assigned("0")),
        tasks("01"),
        tasks("0"),
        {"q": assigned("1")},
        (UNRELEASED, 2, "0", ""),
    ),
    "stable, and something is to be given up": (
        member(STABLE, assigned("01")),
        tasks("0"),
        tasks("01"),
        {},
        (UNREVOKED, 1, "0", "1"),
    ),
    "it has given that up already": (member(STABLE, assigned("01")), tasks("0"), tasks("0"), {}, (STABLE, 2, "0", "")),
    "it does not say what it owns": (member(STABLE, assigned("01")), tasks("0"), None, {}, (UNREVOKED, 1, "0", "1")),
    "nothing is given before something is given up": (
        member(STABLE, assigned("01")),
        tasks("02"),
        tasks("01"),
        {},
        (UNREVOKED, 1, "0", "1"),
    ),
    "it holds on to what it is to give up": (
        member(UNREVOKED, assigned("0"), assigned("1")),
        tasks("02"),
        tasks("01"),
        {},
        (UNREVOKED, 1, "0", "1"),
    ),
    "it has given it up": (member(UNREVOKED, assigned("0"), assigned("1")), tasks("02"), tasks("0"), {}, (STABLE, 2, "02", "")),
    "it has given it up, and the target asks for more": (
        member(UNREVOKED, assigned("02"), assigned("1")),
        tasks("0"),
        tasks("02"),
        {},
        (UNREVOKED, 2, "0", "2"),
    ),
    "others have given something up": (
        member(UNRELEASED, assigned("0"), epoch=2),
        tasks("01"),
        tasks("0"),
        {},
        (STABLE, 2, "01", ""),
    ),
    "others have not": (
        member(UNRELEASED, assigned("0"), epoch=2),
        tasks("01"),
        tasks("0"),
        {"q": assigned("1")},
        (UNRELEASED, 2, "0", ""),
    ),
    "a state of a newer broker, and it owns nothing": (member(UNKNOWN, assigned()), tasks("0"), NOTHING, {}, (STABLE, 2, "0", "")),
    # A task changes its role, for example from standby to active.
    "a standby becomes active": (member(STABLE, assigned("", "0")), tasks("0"), tasks("", "0"), {}, (STABLE, 2, "0", "")),
    "a standby waits to become active": (
        member(STABLE, assigned("", "0")),
        tasks("0"),
        tasks("", "0"),
        {"q": assigned("0")},
        (UNRELEASED, 2, "/0", ""),
    ),
    "a standby waits while something else is given up": (
        member(STABLE, assigned("1", "0")),
        tasks("0"),
        tasks("1", "0"),
        {},
        (UNREVOKED, 1, "/0", "1"),
    ),
    "a warm-up becomes active": (member(STABLE, assigned("", "", "0")), tasks("0"), tasks("", "", "0"), {}, (STABLE, 2, "0", "")),
    "an active task becomes a standby": (
        member(STABLE, assigned("0")),
        tasks("", "0"),
        tasks("0"),
        {},
        (UNREVOKED, 1, "/0", "0"),
    ),
    "a standby becomes a warm-up": (
        member(STABLE, assigned("", "0")),
        tasks("", "", "0"),
        tasks("", "0"),
        {},
        (STABLE, 2, "//0", ""),
    ),
    "a warm-up becomes a standby": (
        member(STABLE, assigned("", "", "0")),
        tasks("", "0"),
        tasks("", "", "0"),
        {},
        (STABLE, 2, "/0", ""),
    ),
    # Members of the same process share a state directory.
    "a standby where the process runs the task": (
        member(STABLE, assigned()),
        tasks("", "0"),
        NOTHING,
        {"p": assigned("0")},
        (UNRELEASED, 2, "", ""),
    ),
    "a standby where another process runs the task": (
        member(STABLE, assigned()),
        tasks("", "0"),
        NOTHING,
        {"q": assigned("0")},
        (STABLE, 2, "/0", ""),
    ),
    "an active task that is a standby beside": (
        member(STABLE, assigned()),
        tasks("0"),
        NOTHING,
        {"p": assigned("", "0")},
        (UNRELEASED, 2, "", ""),
    ),
    "an active task that is a standby elsewhere": (
        member(STABLE, assigned()),
        tasks("0"),
        NOTHING,
        {"q": assigned("", "0")},
        (STABLE, 2, "0", ""),
    ),
}


@pytest.mark.parametrize(("before", "target", "owned", "others", "after"), TABLE.values(), ids=TABLE.keys())
def test_streams_member_reconciliation_gives_the_next_epoch_and_tasks(
    before: StreamsGroupMember, target: Tasks, owned: Tasks | None, others: dict[str, AssignedTasks], after: tuple[object, ...]
) -> None:
    assert step(before, target, owned, others) == after


def test_streams_member_at_its_target_assignment_is_unchanged() -> None:
    before = member(STABLE, assigned("0"), epoch=2)
    assert reconciled(before, 2, tasks("0"), Holders(), None) is before


@pytest.mark.parametrize("owned", [None, tasks("0")])
def test_streams_member_with_an_unknown_state_is_fenced(owned: Tasks | None) -> None:
    with pytest.raises(KafkaError) as error:
        step(member(UNKNOWN, assigned("0")), tasks("0"), owned)
    assert error.value.code is Code.FENCED_MEMBER_EPOCH


def test_reconciled_streams_tasks_have_the_epochs_of_their_assignment() -> None:
    before = member(STABLE, assigned("0"))
    after = reconciled(before, 2, tasks("01"), Holders(), tasks("0"))
    assert after.assigned.active == {"0": {0: 1, 1: 2}}
    assert after.previous_epoch == 1
