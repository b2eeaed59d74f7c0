"""Scenario commands for consumer groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.scenarios.group_verbs import coordinated
from tests.scenarios.verbs import verb
from tests.scenarios.world import Actor, Ask, Words, World, name_of

EMPTY = "empty"
"""Placeholder for an empty string in a command."""


@verb
def beat(world: World, words: Words) -> Ask:
    """Send a heartbeat of the member M of a consumer group; its first heartbeat joins the group.

    Command: ``M = beat g [epoch=e-1] [topics=t,u] [regex=t.*] [owned=all] [instance=i] [rack=r] [assignor=range] [rebalance=-1]
    [full] ...``. ``owned`` is ``none``, ``all`` for the assignment in the last response, or a list of partitions.
    """
    actor = world.actors.setdefault(words.name, Actor(words.name, None, -1, -1, member=words.name, generation=0))
    group = text(world, words.plain[0])
    if group:
        coordinated(world, group)
    epoch = epoch_of(words.options.get("epoch", "e"), actor.generation)
    topics, regex, is_full = words.options.get("topics"), words.options.get("regex"), epoch == 0 or words.has("full")
    names = [] if topics is None else [world.real(topic) for topic in topics.split(",") if topic != "none"]
    if names and group:
        wait_for_topics(world, group, names)
    owned = words.options.get("owned", "none" if epoch == 0 else "all" if is_full else None)
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=words.options.get("member", actor.member).replace(EMPTY, ""),
        member_epoch=epoch,
        instance_id=None if "instance" not in words.options else words.options["instance"].replace(EMPTY, ""),
        rack_id=words.options["rack"].replace(EMPTY, "") if "rack" in words.options else None,
        rebalance_timeout_ms=words.number("rebalance", 300_000 if is_full else -1),
        subscribed_topic_names=None if topics is None else names,
        subscribed_topic_regex=None if regex is None else _regex(world, regex),
        server_assignor=words.options.get("assignor"),
        topic_partitions=None if owned in (None, "null") else _owned(world, actor, owned or ""),
    )

    def show(answer: Any) -> str:
        if answer.error_code:
            return name_of(answer.error_code)
        if answer.member_epoch >= 0:
            actor.generation, actor.member = answer.member_epoch, answer.member_id
        text = f"NONE e{answer.member_epoch}"
        if answer.assignment is None:
            return text
        actor.owned = {t.topic_id: list(t.partitions) for t in answer.assignment.topic_partitions}
        return f"{text} {partitions_of(world, actor.owned)}"

    return Ask(request, words.version(1), show)


def wait_for_topics(world: World, group: str, names: list[str]) -> None:
    """Wait until the group's coordinator knows the topics that exist.

    Apache Kafka's coordinator learns of a new topic with a delay.

    The wait uses another group with the same coordinator.
    """
    answer = world.call(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in (OFFSETS_TOPIC, *names)]), 9)
    counts = {t.name: len(t.partitions) for t in answer.topics if not t.error_code}
    offset_partitions = counts.pop(OFFSETS_TOPIC)
    if not counts:
        return
    at = partition_for(group, offset_partitions)
    probe = next(name for n in count() if partition_for(name := f"{group}-probe-{n}", offset_partitions) == at)
    request = ConsumerGroupHeartbeatRequest(group_id=probe, member_id="probe", member_epoch=-1)

    def joined() -> int:
        request.member_epoch, request.rebalance_timeout_ms = 0, 300_000
        request.subscribed_topic_names, request.topic_partitions = list(counts), []
        assignment = world.call(request, 1).assignment
        request.member_epoch = -1
        world.call(request, 1)
        # The response has no assignment if the coordinator was not ready.
        return 0 if assignment is None else sum(len(t.partitions) for t in assignment.topic_partitions)

    partitions = sum(counts.values())
    world.until(f"the coordinator of {group!r} knows {partitions} partitions of {list(counts)}", joined, partitions.__eq__)


def text(world: World, name: str) -> str:
    return "" if name == EMPTY else world.real(name)


def _regex(world: World, regex: str) -> str:
    """Replace ``~`` with the prefix of the case's topic names."""
    return "" if regex == EMPTY else regex.replace("~", world.real("p").removesuffix("p"))


def epoch_of(written: str, known: int) -> int:
    """Parse a member epoch: ``e`` is the epoch that the member knows, and ``e-1`` is that epoch minus 1."""
    return known + int(written[1:] or 0) if written.startswith("e") else int(written)


def _owned(world: World, actor: Actor, owned: str) -> list[TopicPartitions]:
    if owned == "none":
        return []
    if owned == "all":
        return [TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in actor.owned.items()]
    named = map(world.partition, owned.split(","))
    return [TopicPartitions(topic_id=world.topic_id(topic), partitions=[index]) for topic, index in named]


def partitions_of(world: World, by_id: dict[bytes, list[int]]) -> str:
    """Format assigned partitions as a response is shown."""
    return _partitions(world, _named(world, by_id))


def _named(world: World, by_id: dict[bytes, list[int]]) -> list[tuple[str, list[int]]]:
    """Replace topic ids with topic names. A deleted topic is shown as ``gone``."""
    topics = world.call(MetadataRequest(topics=None), 12).topics if by_id else []
    names = {t.topic_id: t.name for t in topics}
    return [(names.get(topic_id) or "gone", indexes) for topic_id, indexes in by_id.items()]


def _partitions(world: World, topics: Iterable[tuple[str, list[int]]]) -> str:
    shown = sorted(f"{world.shown(name)}/{index}" for name, indexes in topics for index in indexes)
    return " ".join(shown) or "nothing"


@verb
def consumers(world: World, words: Words) -> Ask:
    """Show the response to ConsumerGroupDescribe. Command: ``consumers g``."""
    group = world.real(words.plain[0])
    coordinated(world, group)

    def show(answer: Any) -> str:
        described = answer.groups[0]
        if described.error_code:
            return name_of(described.error_code)
        parts = [f"{described.group_state} e{described.group_epoch} of e{described.assignment_epoch} {described.assignor_name}"]
        for member in sorted(described.members, key=lambda m: m.member_id):
            has, is_to_have = (
                _partitions(world, [(t.topic_name, t.partitions) for t in assignment.topic_partitions])
                for assignment in (member.assignment, member.target_assignment)
            )
            parts.append(f"{member.member_id} e{member.member_epoch} {has}" + (f" to {is_to_have}" if is_to_have != has else ""))
        return " | ".join(parts)

    return Ask(ConsumerGroupDescribeRequest(group_ids=[group]), words.version(1), show)


@verb
def targets(world: World, words: Words) -> Ask:
    """Show the target assignment of each member of a consumer group. Command: ``targets g``."""
    ask = consumers(world, words)
    assert isinstance(ask, Ask)

    def show(answer: Any) -> str:
        if answer.groups[0].error_code:
            return name_of(answer.groups[0].error_code)
        return " | ".join(
            f"{m.member_id} {_partitions(world, [(t.topic_name, t.partitions) for t in m.target_assignment.topic_partitions])}"
            for m in sorted(answer.groups[0].members, key=lambda m: m.member_id)
        )

    return Ask(ask.request, ask.version, show)
