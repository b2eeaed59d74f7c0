"""Scenario commands for share groups: members, acquired records and acknowledgements (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch

from ottla.coordinator.share_state.states import AcknowledgeType
from ottla.protocol.messages import share_acknowledge, share_fetch
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.scenarios.consumer_verbs import EMPTY, epoch_of, partitions_of, text, wait_for_topics
from tests.scenarios.group_verbs import coordinated
from tests.scenarios.share_verbs import topic_id_of
from tests.scenarios.verbs import verb
from tests.scenarios.views import stored
from tests.scenarios.world import Actor, Ask, Words, World, name_of


@verb
def share(world: World, words: Words) -> Ask:
    """Send a heartbeat of the member M of a share group; its first heartbeat joins the group.

    Command: ``M = share g [epoch=e-1] [topics=t,u] [rack=r] [member=x] [counted]``. The partitions that each of several members
    gets depend on topic ids. ``counted`` shows only their number.
    """
    actor = world.actors.setdefault(words.name, Actor(words.name, None, -1, -1, member=words.name, generation=0))
    group = text(world, words.plain[0])
    if group:
        coordinated(world, group)
    topics = words.options.get("topics")
    names = [] if topics in (None, "none") else [text(world, topic) for topic in topics.split(",")]
    if names and group:
        wait_for_topics(world, group, names)
    request = ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=words.options.get("member", actor.member).replace(EMPTY, ""),
        member_epoch=epoch_of(words.options.get("epoch", "e"), actor.generation),
        rack_id=words.options["rack"].replace(EMPTY, "") if "rack" in words.options else None,
        subscribed_topic_names=None if topics is None else names,
    )

    def show(answer: Any) -> str:
        if answer.error_code:
            return name_of(answer.error_code)
        if answer.member_epoch >= 0:
            actor.generation = answer.member_epoch
        text = f"NONE e{answer.member_epoch}"
        if answer.assignment is None:
            return text
        if words.has("counted"):
            return f"{text} {sum(len(t.partitions) for t in answer.assignment.topic_partitions)} partitions"
        return f"{text} {partitions_of(world, {t.topic_id: t.partitions for t in answer.assignment.topic_partitions})}"

    return Ask(request, words.version(1), show)


@verb
def shares(world: World, words: Words) -> Ask:
    """Show the response to ShareGroupDescribe. Command: ``shares g [counted]``."""
    group = world.real(words.plain[0])
    coordinated(world, group)

    def show(answer: Any) -> str:
        described = answer.groups[0]
        if described.error_code:
            return name_of(described.error_code)
        parts = [f"{described.group_state} e{described.group_epoch} of e{described.assignment_epoch} {described.assignor_name}"]
        for member in sorted(described.members, key=lambda m: m.member_id):
            has = sorted(f"{world.shown(t.topic_name)}/{p}" for t in member.assignment.topic_partitions for p in t.partitions)
            assigned = f"{len(has)} partitions" if words.has("counted") else " ".join(has) or "nothing"
            parts.append(f"{member.member_id} e{member.member_epoch} {assigned}")
        return " | ".join(parts)

    return Ask(ShareGroupDescribeRequest(group_ids=[group]), words.version(1), show)


def _session(actor: Actor, words: Words) -> int:
    """Return the share session epoch to send. ``s`` is the next epoch of the member's session, and the default."""
    given = words.options.get("session", "s")
    return actor.share_session + int(given[1:] or 0) if given.startswith("s") else int(given)


def _member(world: World, words: Words) -> tuple[Actor, str, str]:
    """Return the actor, the member id and the group id of a command. The option ``member`` replaces the actor's own member id."""
    actor = world.actors.setdefault(words.plain[0], Actor(words.plain[0], None, -1, -1, member=words.plain[0], generation=0))
    return actor, words.options.get("member", actor.member).replace(EMPTY, ""), text(world, words.plain[1])


def _goes_on(actor: Actor, words: Words, sent: int) -> None:
    """Advance the epoch of the share session after a successful response. After a final epoch (-1), a new session begins."""
    if "session" not in words.options or words.has("move"):
        actor.share_session = 0 if sent == -1 else sent + 1


def _acknowledged(words: Words, make: Any) -> list[Any]:
    """Parse acknowledgements, such as ``0-4:accept 5:release 6-7:reject,gap``: one type for all offsets, or one for each."""
    batches = []
    for word in words.plain[2:]:
        offsets, colon, kinds = word.partition(":")
        if colon:
            first, _, last = offsets.partition("-")
            types = [int(kind) if kind.lstrip("-").isdigit() else AcknowledgeType[kind.upper()].value for kind in kinds.split(",")]
            batches.append(make(first_offset=int(first), last_offset=int(last or first), acknowledge_types=types))
    return batches


def _named(world: World, words: Words) -> list[tuple[bytes, int, str]]:
    names = [one for word in words.plain[2:3] if ":" not in word for one in word.split(",")]
    return [(topic_id_of(world, one), world.partition(one)[1], one) for one in names]


@verb
def acquire(world: World, words: Words) -> Ask:
    """Send ShareFetch, and show the acquired records as offsets:delivery count.

    Command: ``acquire M g t,u/1 [0-4:accept ...] [session=s+1] [max=500] [batch=500] [wait=0] [forget=u] [renew] [limited] [v=2]``.
    The results of acknowledgements in the request are shown as well.
    """
    actor, member, group = _member(world, words)
    session = _session(actor, words)
    named = _named(world, words)
    acknowledged = _acknowledged(words, share_fetch.AcknowledgementBatch)
    by_topic: dict[bytes, list[share_fetch.FetchPartition]] = {}
    for topic_id, index, _ in named:
        one = share_fetch.FetchPartition(partition_index=index, acknowledgement_batches=acknowledged)
        by_topic.setdefault(topic_id, []).append(one)
    forgotten = [one for one in words.options.get("forget", "").split(",") if one]
    request = share_fetch.ShareFetchRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=session,
        max_wait_ms=words.number("wait", 0),
        min_bytes=1,
        max_bytes=words.number("bytes", 1 << 20),
        max_records=words.number("max", 500),
        batch_size=words.number("batch", 500),
        share_acquire_mode=int(words.has("limited")),
        is_renew_ack=words.has("renew"),
        topics=[share_fetch.FetchTopic(topic_id=i, partitions=ps) for i, ps in by_topic.items()],
        forgotten_topics_data=[
            share_fetch.ForgottenTopic(topic_id=topic_id_of(world, one), partitions=[world.partition(one)[1]]) for one in forgotten
        ],
    )

    def show(answer: Any) -> str:
        if answer.error_code:
            return name_of(answer.error_code)
        _goes_on(actor, words, session)
        results = [(topic.topic_id, p) for topic in answer.responses for p in topic.partitions]
        texts = [
            f"{_spelled(world, topic_id, p.partition_index)}{_fetched(p)}"
            for topic_id, p in sorted(results, key=lambda one: (world.spelled(one[0]), one[1].partition_index))
        ]
        return f"NONE {', '.join(texts) or 'nothing'}"

    return Ask(request, words.version(2), show)


def _spelled(world: World, topic_id: bytes, index: int) -> str:
    return f"{world.spelled(topic_id)}/{index} "


def _fetched(partition: Any) -> str:
    runs = (f"{r.first_offset}-{r.last_offset}:{r.delivery_count}" for r in partition.acquired_records)
    text = name_of(partition.error_code) if partition.error_code else " ".join(runs) or "nothing"
    return text + (f" acknowledged {name_of(partition.acknowledge_error_code)}" if partition.acknowledge_error_code else "")


@verb
def acknowledge(world: World, words: Words) -> Ask:
    """Send ShareAcknowledge. Command: ``acknowledge M g t 0-4:accept 5:release [session=s+1] [renew] [v=2]``."""
    actor, member, group = _member(world, words)
    session = _session(actor, words)
    batches = _acknowledged(words, share_acknowledge.AcknowledgementBatch)
    by_topic: dict[bytes, list[share_acknowledge.AcknowledgePartition]] = {}
    for topic_id, index, _ in _named(world, words):
        one = share_acknowledge.AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
        by_topic.setdefault(topic_id, []).append(one)
    request = share_acknowledge.ShareAcknowledgeRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=session,
        is_renew_ack=words.has("renew"),
        topics=[share_acknowledge.AcknowledgeTopic(topic_id=i, partitions=ps) for i, ps in by_topic.items()],
    )

    def show(answer: Any) -> str:
        if answer.error_code:
            return name_of(answer.error_code)
        _goes_on(actor, words, session)
        return _all_or_each(name_of(p.error_code) for topic in answer.responses for p in topic.partitions)

    return Ask(request, words.version(2), show)


def _all_or_each(names: Iterable[str]) -> str:
    listed = list(names)
    return listed[0] if len(set(listed)) == 1 else " | ".join(listed) or "NONE nothing"


@verb
def dead_letters(world: World, words: Words) -> str:
    """Show the records of a dead-letter topic, with their headers without the common prefix. Command: ``dead_letters dlq.t/1``."""
    name, index = world.partition(words.plain[0])
    if name not in {topic.name for topic in world.call(MetadataRequest(topics=None), 9).topics}:
        return "no such topic"
    texts = []
    for _, batch in stored(world, (name, index)):
        for record in DefaultRecordBatch(batch):
            headers = ((key.removeprefix(_HEADER), (value or b"").decode()) for key, value in record.headers)
            shown = " ".join(f"{key}={world.shown(text)}" for key, text in headers)
            texts.append(f"{record.offset} {_spelled_bytes(record.key)}={_spelled_bytes(record.value)} {shown}")
    return " | ".join(texts) or "nothing"


_HEADER = "__dlq.errors."


def _spelled_bytes(data: bytes | None) -> str:
    return "null" if data is None else data.decode() if len(data) < 20 else f"{len(data)} bytes"


@verb
def share_offsets(world: World, words: Words) -> Ask:
    """Show offsets by DescribeShareGroupOffsets, by default of all topics of the group.

    Command: ``share_offsets g [t,u/1] [v=1]``.
    """
    group = text(world, words.plain[0])
    coordinated(world, group or "any")
    named = [world.partition(one) for one in words.plain[1].split(",")] if len(words.plain) > 1 else []
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[index]) for name, index in named]
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics if named else None)

    def show(answer: Any) -> str:
        described = answer.groups[0]
        if described.error_code:
            return name_of(described.error_code)
        lag = "" if words.version(1) == 0 else " lag={}"
        texts = sorted(
            f"{world.shown(t.topic_name)}/{p.partition_index} "
            + (name_of(p.error_code) if p.error_code else f"start={p.start_offset}{lag.format(getattr(p, 'lag', -1))}")
            for t in described.topics
            for p in t.partitions
        )
        return ", ".join(texts) or "nothing"

    return Ask(DescribeShareGroupOffsetsRequest(groups=[asked]), words.version(1), show)


@verb
def alter_share_offsets(world: World, words: Words) -> Ask:
    """Set start offsets of a share group by AlterShareGroupOffsets. Command: ``alter_share_offsets g t=5 u/1=0``."""
    group = text(world, words.plain[0])
    coordinated(world, group or "any")
    topics = []
    for where, offset in words.options.items():
        name, index = world.partition(where)
        one = AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=int(offset))
        topics.append(AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[one]))

    def show(answer: Any) -> str:
        if answer.error_code:
            return name_of(answer.error_code)
        return _all_or_each(name_of(p.error_code) for topic in answer.responses for p in topic.partitions)

    return Ask(AlterShareGroupOffsetsRequest(group_id=group, topics=topics), 0, show)


@verb
def delete_share_offsets(world: World, words: Words) -> Ask:
    """Send DeleteShareGroupOffsets. Command: ``delete_share_offsets g t,u``."""
    group = text(world, words.plain[0])
    coordinated(world, group or "any")
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=world.real(name)) for name in words.plain[1].split(",")]

    def show(answer: Any) -> str:
        return name_of(answer.error_code) if answer.error_code else _all_or_each(name_of(t.error_code) for t in answer.responses)

    return Ask(DeleteShareGroupOffsetsRequest(group_id=group, topics=topics), 0, show)
