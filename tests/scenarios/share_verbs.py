"""Scenario commands for the share coordinator, which persists the delivery state of share groups (KIP-932)."""

from __future__ import annotations

from typing import Any

from ottla.coordinator.share_state.states import RecordState
from ottla.protocol.errors import Code
from ottla.protocol.messages import delete_share_group_state as delete_state
from ottla.protocol.messages import initialize_share_group_state as initialize_state
from ottla.protocol.messages import read_share_group_state as read_state
from ottla.protocol.messages import read_share_group_state_summary as read_summary
from ottla.protocol.messages import write_share_group_state as write_state
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.uuids import uuid_text
from tests.scenarios.consumer_verbs import text
from tests.scenarios.verbs import verb
from tests.scenarios.world import NO_SUCH_ID, Ask, Words, World, name_of
from tests.support import oracle

SHARE = 2
"""Key type of share partitions in FindCoordinator (FindCoordinatorRequest.CoordinatorType)."""
_NAMES = {state.value: state.name.lower() for state in RecordState}


def topic_id_of(world: World, topic: str) -> bytes:
    """Return a topic id: ``none`` is a topic without an id, ``unknown`` is an unused id.

    The id of a deleted topic is remembered.
    """
    name = topic.partition("/")[0]
    if name in ("none", "unknown"):
        return NO_UUID if name == "none" else NO_SUCH_ID
    if name not in world.topic_ids:
        world.topic_ids[name] = world.topic_id(world.real(name))
    return world.topic_ids[name]


def have_coordinators(world: World, words: Words) -> tuple[str, list[tuple[bytes, int]]]:
    """Wait for the share coordinators of the group and partitions that a command names, and return group and partitions.

    The wait ends when the coordinators have loaded and know the partitions that exist.
    """
    group = text(world, words.plain[0])
    named = [one for one in (words.plain[1] if len(words.plain) > 1 else "").split(",") if one]
    asked = [(topic_id_of(world, one), world.partition(one)[1]) for one in named]
    there = _there(world, {topic_id for topic_id, _ in asked})
    for topic_id, partition in asked:
        _have_coordinator(world, group or "any", topic_id, partition, is_there=(topic_id, partition) in there)
    return group, asked


def _there(world: World, topic_ids: set[bytes]) -> set[tuple[bytes, int]]:
    """Return the existing partitions of these topics.

    Only these topics are requested, because a broker of many scenarios has a thousand.
    """
    named = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(topic_ids - {NO_UUID})]
    topics = world.call(MetadataRequest(topics=named), 12).topics
    return {(topic.topic_id, partition.partition_index) for topic in topics for partition in topic.partitions}


def _have_coordinator(world: World, group: str, topic_id: bytes, partition: int, *, is_there: bool) -> None:
    """Wait until the coordinator knows an existing partition, as Apache Kafka's coordinator learns of topics with a delay.

    The wait's request changes nothing.
    """
    key = f"{group}:{uuid_text(topic_id)}:{max(partition, 0)}"
    found = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key])
    oracle.ready(world, found, 6, lambda answer: [answer.coordinators[0].error_code])
    if not is_there:
        return
    asked = read_summary.PartitionData(partition=partition, leader_epoch=0)
    topics = [read_summary.ReadStateSummaryData(topic_id=topic_id, partitions=[asked])]
    summary = read_summary.ReadShareGroupStateSummaryRequest(group_id=group, topics=topics)
    world.until(
        f"the share coordinator of {key!r} knows its partition",
        lambda: Code(world.call(summary, 1).results[0].partitions[0].error_code),
        Code.NONE.__eq__,
    )


def _by_topic(asked: list[tuple[bytes, Any]]) -> dict[bytes, list[Any]]:
    by_topic: dict[bytes, list[Any]] = {}
    for topic_id, one in asked:
        by_topic.setdefault(topic_id, []).append(one)
    return by_topic


def _ask(request: Any, version: int | None, asked: list[tuple[bytes, int]], show: Any = None) -> Ask:
    """Show the results of all partitions in the order of the command, or one result if all are equal."""

    def shown(answer: Any) -> str:
        results = {(result.topic_id, p.partition): p for result in answer.results for p in result.partitions}
        if not results:
            return "nothing"
        texts = [_told(results[key], show) for key in asked]
        return texts[0] if len(set(texts)) == 1 else " | ".join(texts)

    return Ask(request, version, shown)


def _told(result: Any, show: Any) -> str:
    if result.error_code:
        return name_of(result.error_code)
    return f"NONE {show(result)}" if show else "NONE"


@verb
def share_init(world: World, words: Words) -> Ask:
    """Send InitializeShareGroupState. Command: ``share_init g t/1,u [epoch=0] [start=0]``."""
    group, asked = have_coordinators(world, words)
    epoch, start = words.number("epoch", 0), words.number("start", 0)
    named = [(i, initialize_state.PartitionData(partition=p, state_epoch=epoch, start_offset=start)) for i, p in asked]
    topics = [initialize_state.InitializeStateData(topic_id=i, partitions=ps) for i, ps in _by_topic(named).items()]
    return _ask(initialize_state.InitializeShareGroupStateRequest(group_id=group, topics=topics), 0, asked)


@verb
def share_read(world: World, words: Words) -> Ask:
    """Send ReadShareGroupState, and show each range of records as offsets:state:delivery count.

    Command: ``share_read g t [leader=0]``.
    """
    group, asked = have_coordinators(world, words)
    named = [(i, read_state.PartitionData(partition=p, leader_epoch=words.number("leader", 0))) for i, p in asked]
    topics = [read_state.ReadStateData(topic_id=i, partitions=ps) for i, ps in _by_topic(named).items()]

    def show(result: Any) -> str:
        runs = (
            f"{b.first_offset}-{b.last_offset}:{_NAMES.get(b.delivery_state, b.delivery_state)}:{b.delivery_count}"
            for b in result.state_batches
        )
        return " ".join([f"e{result.state_epoch} start={result.start_offset}", *runs])

    return _ask(read_state.ReadShareGroupStateRequest(group_id=group, topics=topics), 0, asked, show)


@verb
def share_write(world: World, words: Words) -> Ask:
    """Send WriteShareGroupState.

    Command: ``share_write g t [0-9:acknowledged:1 ...] [epoch=0] [leader=0] [start=0] [complete=0] [v=1]``.
    """
    group, asked = have_coordinators(world, words)
    batches = [_batch(word) for word in words.plain[2:] if ":" in word]
    named = [
        (
            topic_id,
            write_state.PartitionData(
                partition=partition,
                state_epoch=words.number("epoch", 0),
                leader_epoch=words.number("leader", 0),
                start_offset=words.number("start", 0),
                delivery_complete_count=words.number("complete", 0),
                state_batches=batches,
            ),
        )
        for topic_id, partition in asked
    ]
    topics = [write_state.WriteStateData(topic_id=i, partitions=ps) for i, ps in _by_topic(named).items()]
    return _ask(write_state.WriteShareGroupStateRequest(group_id=group, topics=topics), words.version(1), asked)


def _batch(written: str) -> write_state.StateBatch:
    offsets, state, count = written.split(":")
    first, _, last = offsets.partition("-")
    value = int(state) if state.isdigit() else RecordState[state.upper()].value
    return write_state.StateBatch(
        first_offset=int(first), last_offset=int(last or first), delivery_state=value, delivery_count=int(count)
    )


@verb
def share_summary(world: World, words: Words) -> Ask:
    """Send ReadShareGroupStateSummary. Command: ``share_summary g t [v=1]``."""
    group, asked = have_coordinators(world, words)
    named = [(i, read_summary.PartitionData(partition=p, leader_epoch=words.number("leader", 0))) for i, p in asked]
    topics = [read_summary.ReadStateSummaryData(topic_id=i, partitions=ps) for i, ps in _by_topic(named).items()]

    def show(result: Any) -> str:
        text = f"e{result.state_epoch} leader={result.leader_epoch} start={result.start_offset}"
        return text + ("" if words.version(1) == 0 else f" complete={result.delivery_complete_count}")

    return _ask(read_summary.ReadShareGroupStateSummaryRequest(group_id=group, topics=topics), words.version(1), asked, show)


@verb
def share_delete(world: World, words: Words) -> Ask:
    """Send DeleteShareGroupState. Command: ``share_delete g t``."""
    group, asked = have_coordinators(world, words)
    named = [(i, delete_state.PartitionData(partition=p)) for i, p in asked]
    topics = [delete_state.DeleteStateData(topic_id=i, partitions=ps) for i, ps in _by_topic(named).items()]
    return _ask(delete_state.DeleteShareGroupStateRequest(group_id=group, topics=topics), 0, asked)


@verb
def share_coordinator(world: World, words: Words) -> str:
    """Send FindCoordinator with the key of a share partition, in which ID is an unused topic id.

    Command: ``share_coordinator g:ID:0 [v=6]``.
    """
    key = words.plain[0].replace("ID", uuid_text(NO_SUCH_ID))
    version = words.version(6) or 0
    request = FindCoordinatorRequest(key=key, key_type=SHARE, coordinator_keys=[key])

    def coordinator_answer() -> str:
        answer = world.call(request, version)
        return name_of((answer.coordinators[0] if version >= 4 else answer).error_code)

    # The first FindCoordinator request makes Apache Kafka create the share state topic, so its response may be an error.
    waits = version >= 6
    return world.patiently(coordinator_answer, patient=waits)
