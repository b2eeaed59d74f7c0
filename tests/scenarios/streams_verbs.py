"""Scenario commands for streams groups (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.coordinator.group.streams.status import StatusCode
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from ottla.protocol.messages.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from tests.scenarios.consumer_verbs import EMPTY, epoch_of, text, wait_for_topics
from tests.scenarios.group_verbs import coordinated
from tests.scenarios.verbs import verb
from tests.scenarios.world import Actor, Ask, Words, World, name_of

ROLES = ("active", "standby", "warmup")
"""Roles of tasks. In commands and responses, active tasks are listed without their role."""
_IN_A_SUBTOPOLOGY = ("reads", "regex", "repartitions", "writes", "changelogs", "together")


@verb
def subtopology(world: World, words: Words) -> str:
    """Add a subtopology to the topology T.

    Command: ``subtopology T 0 [reads=t,u] [repartitions=r:3,q] [writes=r] [changelogs=c] [together=t,r] [replicas=3] [regex=a.*]``.
    An internal topic has a number of partitions only if the application sets it, such as ``r:3``. The topics in ``together`` are
    copartitioned.
    """
    world.topologies.setdefault(words.plain[0], []).append(_subtopology(world, words, words.plain[1]))
    return ""


def _subtopology(world: World, words: Words, subtopology_id: str) -> Subtopology:
    sources, repartitions = _names(world, words, "reads"), _internal(world, words, "repartitions")
    together, at = _names(world, words, "together"), [topic.name for topic in repartitions]
    group = CopartitionGroup(
        source_topics=[sources.index(name) for name in together if name in sources],
        repartition_source_topics=[at.index(name) for name in together if name in at],
    )
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sources,
        source_topic_regex=[expression for expression in (words.options.get("regex"),) if expression],
        state_changelog_topics=_internal(world, words, "changelogs"),
        repartition_sink_topics=_names(world, words, "writes"),
        repartition_source_topics=repartitions,
        copartition_groups=[group] if together else [],
    )


def _names(world: World, words: Words, option: str) -> list[str]:
    listed = words.options.get(option, "none")
    return [] if listed == "none" else [text(world, name) for name in listed.split(",")]


def _internal(world: World, words: Words, option: str) -> list[TopicInfo]:
    listed = [one.partition(":") for one in words.options.get(option, "").split(",") if one]
    replicas = words.number("replicas", 0)
    return [TopicInfo(name=text(world, name), partitions=int(count or 0), replication_factor=replicas) for name, _, count in listed]


@verb
def stream(world: World, words: Words) -> Ask:
    """Send a heartbeat of the member M of a streams group; its first heartbeat joins the group.

    Command: ``M = stream g [epoch=e-1] [reads=t ...] [topology=T] [tepoch=1] [owned=all] [instance=i] [process=P] [endpoint=h:9]
    ...``. The options of ``subtopology`` define a topology with one subtopology. Tasks are written as ``owned=0_1,0_2 standby=0_0
    warmup=0_3``, each with subtopology and partition. ``known`` is the endpoint information epoch that the member knows, and
    ``shutdown`` requests the shutdown of the application.
    """
    actor = world.actors.setdefault(words.name, Actor(words.name, None, -1, -1, member=words.name, generation=0))
    group = text(world, words.plain[0])
    if group:
        coordinated(world, group)
    epoch = epoch_of(words.options.get("epoch", "e"), actor.generation)
    topology = _topology(world, words)
    if topology is not None and group:
        wait_for_topics(world, group, sorted(_topics(topology)))
    is_full = epoch == 0 or words.has("full")
    active, standby, warmup = _owned(actor, words, is_joining=epoch == 0)
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=words.options.get("member", actor.member).replace(EMPTY, ""),
        member_epoch=epoch,
        endpoint_information_epoch=words.number("known", 0),
        instance_id=_given(words, "instance"),
        rack_id=_given(words, "rack"),
        rebalance_timeout_ms=words.number("rebalance", 300_000 if is_full else -1),
        topology=topology,
        active_tasks=active,
        standby_tasks=standby,
        warmup_tasks=warmup,
        process_id=words.options.get("process", words.name if is_full else None),
        user_endpoint=_endpoint(words),
        client_tags=_tags(words, [] if epoch == 0 else None),
        task_offsets=_offsets(words, "offsets"),
        task_end_offsets=_offsets(words, "ends"),
        shutdown_application=words.has("shutdown"),
    )

    def show(answer: Any) -> str:
        if answer.error_code:
            return name_of(answer.error_code)
        if answer.member_epoch >= 0:
            actor.generation, actor.member = answer.member_epoch, answer.member_id
        return " | ".join([f"NONE e{answer.member_epoch}{_new_tasks(actor, answer)}", *_news(world, answer)])

    return Ask(request, words.version(0), show)


def _given(words: Words, option: str) -> str | None:
    return words.options[option].replace(EMPTY, "") if option in words.options else None


def _topology(world: World, words: Words) -> Topology | None:
    if "topology" in words.options:
        parts = world.topologies[words.options["topology"]]
    elif any(option in words.options for option in _IN_A_SUBTOPOLOGY):
        parts = [_subtopology(world, words, "0")]
    else:
        return None
    return Topology(epoch=words.number("tepoch", 0), subtopologies=parts)


def _topics(topology: Topology) -> set[str]:
    internal = {t.name for one in topology.subtopologies for t in (*one.repartition_source_topics, *one.state_changelog_topics)}
    return internal | {name for one in topology.subtopologies for name in one.source_topics}


def _owned(actor: Actor, words: Words, *, is_joining: bool) -> list[list[TaskIds] | None]:
    """Return the tasks that the member reports, by role.

    A joining member reports none. ``standby=null`` omits the standby tasks from the request.
    """
    said = [words.options.get(option) for option in ("owned", *ROLES[1:])]
    if said[0] == "all":
        return [_task_ids(tasks) for tasks in actor.tasks]
    if all(one is None for one in said):
        return [[] if is_joining else None] * len(ROLES)
    return [None if one == "null" else _task_ids(_tasks(one or "none")) for one in said]


def _tasks(listed: str) -> dict[str, list[int]]:
    tasks: dict[str, list[int]] = {}
    for subtopology_id, _, partition in (one.partition("_") for one in listed.split(",") if listed != "none"):
        tasks.setdefault(subtopology_id, []).append(int(partition))
    return tasks


def _task_ids(tasks: dict[str, list[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=subtopology_id, partitions=partitions) for subtopology_id, partitions in tasks.items()]


def _endpoint(words: Words) -> Endpoint | None:
    host, _, port = words.options.get("endpoint", "").partition(":")
    return Endpoint(host=host, port=int(port)) if host else None


def _tags(words: Words, default: list[KeyValue] | None) -> list[KeyValue] | None:
    if "tags" not in words.options:
        return default
    listed = (one.partition(":") for one in words.options["tags"].split(",") if one != "none")
    return [KeyValue(key=key, value=value) for key, _, value in listed]


def _offsets(words: Words, option: str) -> list[TaskOffset] | None:
    if option not in words.options:
        return None
    listed = [one.partition(":") for one in words.options[option].split(",") if one != "none"]
    tasks = [(*task.partition("_")[::2], offset) for task, _, offset in listed]
    return [TaskOffset(subtopology_id=one, partition=int(at), offset=int(offset)) for one, at, offset in tasks]


def _new_tasks(actor: Actor, answer: Any) -> str:
    """Format the tasks in the response to the member, if there are any."""
    by_role = [answer.active_tasks, answer.standby_tasks, answer.warmup_tasks]
    if all(tasks is None for tasks in by_role):
        return ""
    actor.tasks = [{t.subtopology_id: list(t.partitions) for t in tasks or ()} for tasks in by_role]
    return f" {_by_role(by_role)}"


def _by_role(by_role: Iterable[Any]) -> str:
    parts = []
    for role, tasks in zip(ROLES, by_role, strict=True):
        listed = sorted(f"{t.subtopology_id}_{partition}" for t in tasks or () for partition in t.partitions)
        parts += [role] if listed and role != ROLES[0] else []
        parts += listed
    return " ".join(parts) or "nothing"


def _news(world: World, answer: Any) -> list[str]:
    news = sorted(StatusCode(one.status_code).name for one in answer.status or ())
    if answer.partitions_by_user_endpoint is not None:
        at = [_at(world, one) for one in sorted(answer.partitions_by_user_endpoint, key=lambda one: one.user_endpoint.port)]
        news.append(f"endpoints of {answer.endpoint_information_epoch}: {', '.join(at) or 'none'}")
    if answer.topology_description_required:
        news.append("description wanted")
    return news


def _at(world: World, one: Any) -> str:
    active, standby = (
        sorted(f"{world.shown(t.topic)}/{partition}" for t in topics for partition in t.partitions)
        for topics in (one.active_partitions, one.standby_partitions)
    )
    return " ".join([f"{one.user_endpoint.host}:{one.user_endpoint.port}", *active, *(["standby", *standby] if standby else [])])


@verb
def streams(world: World, words: Words) -> Ask:
    """Show state, epochs, and each member's current and target assignment by StreamsGroupDescribe. Command: ``streams g``."""

    def show(described: Any) -> str:
        parts = [f"{described.group_state} e{described.group_epoch} of e{described.assignment_epoch}"]
        for member in sorted(described.members, key=lambda m: m.member_id):
            has, is_to_have = _assignment(member.assignment), _assignment(member.target_assignment)
            parts.append(f"{member.member_id} e{member.member_epoch} {has}" + (f" to {is_to_have}" if is_to_have != has else ""))
        return " | ".join(parts)

    return _describe(world, words, show)


def _describe(world: World, words: Words, show: Any) -> Ask:
    group = world.real(words.plain[0])
    coordinated(world, group)

    def shown(answer: Any) -> str:
        described = answer.groups[0]
        return name_of(described.error_code) if described.error_code else str(show(described))

    return Ask(StreamsGroupDescribeRequest(group_ids=[group]), words.version(0), shown)


def _assignment(assignment: Any) -> str:
    return _by_role((assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks))


@verb
def streams_topology(world: World, words: Words) -> Ask:
    """Show the topology epoch, and the topics of each subtopology, with the partition counts of internal topics.

    Command: ``streams_topology g``.
    """

    def show(described: Any) -> str:
        topology = described.topology
        if topology is None:
            return "none"
        return " | ".join([f"e{topology.epoch}", *(_shown(world, one) for one in topology.subtopologies or ())])

    return _describe(world, words, show)


def _shown(world: World, one: Any) -> str:
    parts = [one.subtopology_id, "reads", *map(world.shown, one.source_topics)]
    parts += [f"{world.shown(topic.name)}:{topic.partitions}" for topic in one.repartition_source_topics]
    if one.repartition_sink_topics:
        parts += ["writes", *map(world.shown, one.repartition_sink_topics)]
    if one.state_changelog_topics:
        parts += ["changelogs", *(f"{world.shown(topic.name)}:{topic.partitions}" for topic in one.state_changelog_topics)]
    return " ".join(parts)


@verb
def streams_member(world: World, words: Words) -> Ask:
    """Show a member's process, topology epoch, endpoint and offsets by StreamsGroupDescribe. Command: ``streams_member g M``."""

    def show(described: Any) -> str:
        member = next(m for m in described.members if m.member_id == words.plain[1])
        parts = [f"process {member.process_id} topology e{member.topology_epoch}"]
        parts += [f"{name} {value}" for name, value in (("instance", member.instance_id), ("rack", member.rack_id)) if value]
        if member.user_endpoint is not None:
            parts.append(f"at {member.user_endpoint.host}:{member.user_endpoint.port}")
        for name, listed in (("offsets", member.task_offsets), ("ends", member.task_end_offsets)):
            if listed:
                tasks = sorted(f"{one.subtopology_id}_{one.partition}:{one.offset}" for one in listed)
                parts.append(f"{name} {','.join(tasks)}")
        if member.client_tags:
            parts.append(f"tags {','.join(sorted(f'{tag.key}:{tag.value}' for tag in member.client_tags))}")
        return " ".join(parts)

    return _describe(world, words, show)


@verb
def describe_topology(world: World, words: Words) -> Ask:
    """Send StreamsGroupTopologyDescriptionUpdate. Command: ``describe_topology g member=M [tepoch=0]``."""
    group = text(world, words.plain[0])
    coordinated(world, group or "any")
    request = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=group, member_id=words.options.get("member", "").replace(EMPTY, ""), topology_epoch=words.number("tepoch", 0)
    )
    return Ask(request, 0, lambda answer: name_of(answer.error_code))
