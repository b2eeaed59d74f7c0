"""ottla's assignors return the same assignments as Apache Kafka's own classes for random groups."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate

import pytest

from ottla.coordinator.group.assignors.members import Assignment, Assignor, AssignorMember
from ottla.coordinator.group.assignors.named import ASSIGNORS
from ottla.coordinator.group.assignors.simple import assign_simply
from tests.coordinator.assignors.groups import Group, moved, sizes, topic_id
from tests.coordinator.assignors.kafkas_assignors import Question, asked, made_up

pytestmark = [pytest.mark.full, pytest.mark.java]

GROUPS = 400
SIMPLE = "simple"
SMALLEST_TABLE = 16
"""Initial number of slots in a Java hash set. A set iterates over smaller integers in ascending order."""


def groups_with_small_topic_ids() -> list[Group]:
    """Return groups with small topic ids, half of them with equal subscriptions.

    Kafka's hash sets iterate over small ids in ascending order, which is the order in ottla.
    """
    rng, topics = random.Random(13), [topic_id(number) for number in range(1, 9)]
    return [made_up(rng, topics[: rng.randint(1, 8)], equal_subscriptions=number % 2 == 0) for number in range(GROUPS)]


def groups_with_random_topic_ids() -> list[Group]:
    rng = random.Random(14)
    return [
        made_up(rng, [rng.randbytes(16) for _ in range(rng.randint(1, 8))], equal_subscriptions=number % 2 == 0)
        for number in range(GROUPS)
    ]


def small_share_groups() -> list[Group]:
    """Return share groups so small that Kafka's hash sets iterate over members and partitions in ascending order."""
    rng = random.Random(15)
    groups = []
    while len(groups) < GROUPS:
        topics = [topic_id(number) for number in range(1, rng.randint(1, 4) + 1)]
        limits = {"max_members": SMALLEST_TABLE, "max_partitions": rng.randint(1, SMALLEST_TABLE), "most_owners": rng.randint(0, 6)}
        group = made_up(rng, topics, equal_subscriptions=len(groups) % 2 == 0, **limits)
        if sum(group.partition_counts.values()) <= SMALLEST_TABLE:
            groups.append(with_partitions_hashed_in_order(group))
    return [without_what_nobody_subscribes_to(group) for group in groups]


def subscribed_topics(group: Group) -> frozenset[bytes]:
    return frozenset[bytes]().union(*(member.subscribed for member in group.members.values()))


def with_partitions_hashed_in_order(group: Group) -> Group:
    """Replace the topic ids, so that the Java hashes of all partitions are 0, 1, 2 and so on.

    The hash of a partition is 31 times the hash of its topic id, plus the partition number.
    """
    subscribed = subscribed_topics(group)
    offsets = accumulate([0, *(count if topic in subscribed else 0 for topic, count in group.partition_counts.items())])
    hashes = [offset * pow(31, -1, 2**32) % 2**32 for offset in offsets]
    names = {
        topic: number.to_bytes(8, "big") + (topic_hash ^ number).to_bytes(8, "big")
        for number, (topic, topic_hash) in enumerate(zip(group.partition_counts, hashes, strict=False))
    }
    members = {
        member_id: AssignorMember(
            subscribed=frozenset(names[topic] for topic in member.subscribed),
            assigned={names[topic]: partitions for topic, partitions in member.assigned.items()},
        )
        for member_id, member in group.members.items()
    }
    return Group(members, {names[topic]: count for topic, count in group.partition_counts.items()})


def without_what_nobody_subscribes_to(group: Group) -> Group:
    """Remove previous assignments of topics without a subscriber.

    If subscriptions differ, Kafka lets members keep partitions of such a topic. ottla revokes them.
    """
    subscribed = subscribed_topics(group)
    return group.changed(
        lambda _, member: AssignorMember(
            subscribed=member.subscribed, assigned={t: p for t, p in member.assigned.items() if t in subscribed}
        )
    )


def some_partitions(group: Group) -> Assignment:
    """Return assignable partitions: all assigned partitions, which Kafka keeps assignable, and half of the others."""
    held = {(t, p) for member in group.members.values() for t, of in member.assigned.items() for p in of}
    return {
        topic: frozenset(number for number in range(count) if number % 2 or (topic, number) in held)
        for topic, count in group.partition_counts.items()
    }


def fits_a_table(group: Group) -> bool:
    """Whether Kafka's hash map of assignable partitions has a slot for each hash, and therefore iterates in ascending order."""
    if len({member.subscribed for member in group.members.values()}) > 1:
        return True  # With different subscriptions, Kafka uses one map per topic, with partition numbers as keys.
    assignable = some_partitions(group)
    slots = (sum(len(assignable[topic]) for topic in subscribed_topics(group)) + 1) / 0.75 + 1
    return sum(group.partition_counts[topic] for topic in subscribed_topics(group)) <= slots


def _asked_of(assignor: str, groups: Callable[[], list[Group]]) -> Sequence[Question]:
    return [Question(assignor, group) for group in groups()]


def some_assignable() -> Sequence[Question]:
    return [Question(SIMPLE, group, some_partitions(group)) for group in small_share_groups() if fits_a_table(group)]


QUESTIONS: Mapping[str, Callable[[], Sequence[Question]]] = {
    **{f"{name}, small ids": partial(_asked_of, name, groups_with_small_topic_ids) for name in ASSIGNORS},
    **{f"{name}, random ids": partial(_asked_of, name, groups_with_random_topic_ids) for name in ASSIGNORS},
    SIMPLE: partial(_asked_of, SIMPLE, small_share_groups),
    f"{SIMPLE}, some assignable": some_assignable,
}
"""Functions that generate groups, by kind of comparison. They are called only when a test needs the groups."""


@pytest.fixture(scope="module")
def questions() -> dict[str, Sequence[Question]]:
    return {kind: make() for kind, make in QUESTIONS.items()}


@pytest.fixture(scope="module")
def kafkas(questions: dict[str, Sequence[Question]]) -> dict[str, list[dict[str, Assignment]]]:
    """Return Kafka's assignments for the input of each test case. One Java process computes them."""
    answers = iter(asked([question for of_a_kind in questions.values() for question in of_a_kind]))
    return {kind: [next(answers) for _ in of_a_kind] for kind, of_a_kind in questions.items()}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_partition_assignors_assign_like_those_of_kafka(
    kind: str, questions: dict[str, Sequence[Question]], kafkas: dict[str, list[dict[str, Assignment]]]
) -> None:
    for number, (question, kafkas_assignments) in enumerate(zip(questions[kind], kafkas[kind], strict=True)):
        group = question.group
        assignor: Assignor = ASSIGNORS.get(question.assignor) or partial(assign_simply, assignable=question.assignable)
        ours = group.assigned_by(assignor)
        if kind == "uniform, random ids" and number % 2 == 0:
            # With equal subscriptions, Kafka assigns unowned partitions in the order of its hash set of topics.
            assert sizes(ours) == sizes(kafkas_assignments)
            assert len(moved(group, ours)) == len(moved(group, kafkas_assignments))
        else:
            assert ours == kafkas_assignments
