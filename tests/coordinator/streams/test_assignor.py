"""Properties of every task assignment, and the tasks that move when a streams group changes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.group.streams.assignor import TaskMember, assign
from ottla.coordinator.group.streams.configuration import ConfiguredSubtopology, InternalTopic
from ottla.coordinator.group.streams.java_order import JavaQueue, hash_order
from ottla.coordinator.group.streams.tasks import TaskId, Tasks, TaskSet

CHANGELOG = {"c": InternalTopic("c", 1, 0, {})}

subtopology = st.builds(
    lambda count, is_stateful: ConfiguredSubtopology(count, changelogs=CHANGELOG if is_stateful else {}),
    st.integers(1, 7),
    st.booleans(),
)
topologies = st.lists(subtopology, min_size=1, max_size=4).map(lambda found: {str(i): one for i, one in enumerate(found)})
groups = st.lists(st.sampled_from("pqrs"), min_size=1, max_size=7).map(
    lambda processes: {f"m{i}": TaskMember(process) for i, process in enumerate(processes)}
)
Topologies = dict[str, ConfiguredSubtopology]
Members = dict[str, TaskMember]


def tasks_of(tasks: TaskSet) -> set[TaskId]:
    return {(i, p) for i, partitions in tasks.items() for p in partitions}


def all_tasks(topology: Topologies, *, stateful_only: bool = False) -> set[TaskId]:
    return {(i, p) for i, one in topology.items() for p in range(one.task_count) if one.is_stateful or not stateful_only}


def settled(members: Members, assigned: dict[str, Tasks]) -> Members:
    """Return the members after they have taken over their assigned tasks."""
    return {m: TaskMember(member.process_id, assigned[m].active, assigned[m].standby) for m, member in members.items()}


def active_counts(assigned: dict[str, Tasks]) -> list[int]:
    return [len(tasks_of(tasks.active)) for tasks in assigned.values()]


@given(groups, topologies, st.integers(0, 3))
def test_every_active_streams_task_is_assigned_to_one_member(members: Members, topology: Topologies, standbys: int) -> None:
    assigned = assign(members, topology, standbys)
    given_out = Counter(task for tasks in assigned.values() for task in tasks_of(tasks.active))
    assert given_out == Counter(all_tasks(topology))
    assert assigned.keys() == members.keys()


@given(groups, topologies, st.integers(0, 3))
def test_standby_tasks_exist_only_for_stateful_tasks_on_other_processes(
    members: Members, topology: Topologies, standbys: int
) -> None:
    assigned = assign(members, topology, standbys)
    holders: dict[TaskId, list[str]] = {}
    for member_id, tasks in assigned.items():
        for task in (*tasks_of(tasks.active), *tasks_of(tasks.standby)):
            holders.setdefault(task, []).append(members[member_id].process_id)
    process_count = len({member.process_id for member in members.values()})
    for task in all_tasks(topology):
        assert len(holders[task]) == len(set(holders[task])), f"a process has {task} twice"
        wanted = 1 + (standbys if topology[task[0]].is_stateful else 0)
        assert len(holders[task]) == min(wanted, process_count)


@given(groups, topologies)
def test_tasks_of_a_new_streams_group_are_balanced(members: Members, topology: Topologies) -> None:
    """Processes have equal load, and the members of a process have equal task counts, as far as the numbers allow."""
    assigned = assign(members, topology, 0)
    by_process: dict[str, list[int]] = {}
    for member_id, tasks in assigned.items():
        by_process.setdefault(members[member_id].process_id, []).append(len(tasks_of(tasks.active)))
    assert all(max(counts) - min(counts) <= 1 for counts in by_process.values())
    loads = {process: sum(counts) / len(counts) for process, counts in by_process.items()}
    for counts in by_process.values():
        # Without its last task, no process would have more load than another.
        before_the_last = (sum(counts) - 1) / len(counts)
        assert before_the_last <= min(loads.values()), loads


@given(groups, topologies, st.integers(0, 2))
def test_active_tasks_do_not_move_in_a_stable_streams_group(members: Members, topology: Topologies, standbys: int) -> None:
    """Assigning a settled group again moves no active task if the task counts of members differ by at most one."""
    settled_members = settled(members, assign(members, topology, standbys))
    for _ in range(3):
        again = assign(settled_members, topology, standbys)
        before = [len(tasks_of(m.active)) for m in settled_members.values()]
        if max(before) - min(before) <= 1:
            assert {m: tasks.active for m, tasks in again.items()} == {m: member.active for m, member in settled_members.items()}
        settled_members = settled(settled_members, again)


@given(groups.filter(lambda members: len(members) > 1), topologies)
def test_leaving_streams_member_moves_no_task_of_other_members(members: Members, topology: Topologies) -> None:
    settled_members = settled(members, assign(members, topology, 0))
    settled_members.pop("m0")
    after = assign(settled_members, topology, 0)
    largest = -(-len(all_tasks(topology)) // len(settled_members))
    for member_id, member in settled_members.items():
        kept = tasks_of(member.active) & tasks_of(after[member_id].active)
        assert len(kept) >= min(len(tasks_of(member.active)), largest - 1), "more tasks moved than the balance requires"


def test_standby_task_with_the_highest_offset_becomes_active() -> None:
    members = {
        "a": TaskMember("p"),
        "b": TaskMember("q", standby={"0": frozenset({0})}, task_offsets={"0": {0: 10}}),
        "c": TaskMember("r", standby={"0": frozenset({0})}, task_offsets={"0": {0: 20}}),
    }
    assigned = assign(members, {"0": ConfiguredSubtopology(1, changelogs=CHANGELOG)}, 1)
    assert assigned["c"].active == {"0": {0}}


def test_active_task_without_standby_goes_to_the_member_with_the_highest_task_offset() -> None:
    members = {"a": TaskMember("p"), "b": TaskMember("q", task_offsets={"0": {0: 10}})}
    assert assign(members, {"0": ConfiguredSubtopology(1, changelogs=CHANGELOG)}, 0)["b"].active == {"0": {0}}


def test_streams_group_without_members_is_assigned_no_tasks() -> None:
    assert assign({}, {"0": ConfiguredSubtopology(1)}, 1) == {}


def test_streams_task_assignment_does_not_depend_on_member_order() -> None:
    members = {f"m{i}": TaskMember(f"p{i % 3}") for i in range(7)}
    topology = {"0": ConfiguredSubtopology(11, changelogs=CHANGELOG)}
    assert assign(members, topology, 1) == assign(dict(reversed(members.items())), topology, 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers())))
def test_model_of_javas_priority_queue_pops_the_lowest_priority_first(elements: list[tuple[int, int]]) -> None:
    queue: JavaQueue[tuple[int, int]] = JavaQueue()
    for element in elements:
        queue.push(element[0], element)
    taken = [queue.pop() for _ in range(len(queue))]
    assert [priority for priority, _ in taken] == sorted(priority for priority, _ in elements)
    assert sorted(taken) == sorted(elements)


def test_computed_hash_order_equals_the_order_of_a_java_hash_map() -> None:
    """A Java HashMap iterates by hash slot. The hash of "10" is 1567, which falls into the last of 16 slots."""
    assert hash_order(["10", "2", "1", "0", "9"]) == ["0", "1", "2", "9", "10"]
