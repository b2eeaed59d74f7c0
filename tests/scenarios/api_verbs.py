"""The scenario command ``ask``, which sends any request of any API, and commands that wait until a coordinator knows topics."""

from __future__ import annotations

import importlib
import json
import re
from functools import cache
from typing import Any

import msgspec

from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages import APIS, ApiEntry
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.uuids import uuid_text
from tests.scenarios.consumer_verbs import wait_for_topics
from tests.scenarios.json_messages import Reader, Writer
from tests.scenarios.share_verbs import have_coordinators
from tests.scenarios.verbs import verb
from tests.scenarios.world import Ask, Words, World
from tests.support import oracle

LOADING = {Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR, Code.NOT_LEADER_OR_FOLLOWER}
"""Errors, also of a part of a response, on which the request is sent again."""
PREFIX = "~"
"""Placeholder in JSON for the prefix of all names of a case."""
_GIVEN = re.compile(r"<(\w+)((?:\.\w+)*)([+-]\d+)?>")
_LONG = re.compile(r"<(\w)\*(\d+)>")
_REPEATED = re.compile(r"(\w)\1{29,}")
_MEMBER = re.compile(r".*-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[\w-]{22}")
"""Regular expression for member ids that a broker assigned, in the classic or a newer protocol."""
_NEEDS = re.compile(r"^Request Request\(.*\) needs")
"""Regular expression for the beginning of an error message in which Apache Kafka describes the request as a Java object."""
_CLUSTER_ID = re.compile(r'cluster id "[\w-]{22}"')
_OF_ALL_CASES = {"ListGroups": "groups", "ListTransactions": "transaction_states", "ListConfigResources": "config_resources"}
"""APIs whose responses list objects of every case, with the name of the list. Objects of other cases are not shown."""
_PROBE = "-probe-"
"""Part of the names of the groups that `wait_for_topics` creates."""


@verb
def ask(world: World, words: Words) -> Ask:
    """Send any request, with its fields in JSON.

    Command: ``A = ask ApiName [v=9] {"field": 1}``. The version is the newest by default, or the newest up to ``upto=9``. In the
    JSON ``~t`` is the case's own name of t, ``<node>`` for the broker's id, ``<id.t>`` for the text of a topic id, and
    ``<x*250>`` for 250 times the letter x. ``<A.epoch+1>`` is a field of the actor A, or of the response to the ``ask`` named A,
    and ``<A>`` is the id of the member A. With ``by=alice`` a user sends the request, and error messages are shown too.
    """
    (api,) = words.plain[:1]
    given = _filled(world, world.usual.get(api, {}) | json.loads(words.json or "{}"))
    request = Reader(lambda name: _topic_id(world, name), world.broker.now_ms()).message(_request(api), given)
    writer = Writer(lambda topic_id: _topic(world, topic_id), lambda text: _masked(world, text), is_for_user=bool(words.user))

    def show(answer: Any) -> str:
        if words.name:
            world.answers[words.name] = answer
        loading = _loading(answer)
        if loading is not None:
            return loading.name
        _keep_own(world, api, answer)
        _learn_ids(world, answer)
        return writer.response(answer)

    newest = _entry(api).max_version
    return Ask(request, words.version(min(newest, words.number("upto", newest))), show)


@verb
def usually(world: World, words: Words) -> str:
    """Set default fields for all later ``ask`` commands of an API. Command: ``usually ApiName {"field": 1}``."""
    world.usual[words.plain[0]] = json.loads(words.json)
    return ""


def _filled(world: World, value: Any) -> Any:
    """Return JSON with its placeholders replaced by names, and by values that the broker returned."""
    if isinstance(value, dict):
        return {key: _filled(world, one) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(world, one) for one in value]
    if not isinstance(value, str):
        return value
    whole = _GIVEN.fullmatch(value)
    if whole is not None:
        return _given(world, whole)
    text = _GIVEN.sub(lambda match: str(_given(world, match)), value).replace(PREFIX, world.prefix)
    return _LONG.sub(lambda match: match[1] * int(match[2]), text)


@cache
def _entry(api: str) -> ApiEntry:
    (entry,) = (entry for entry in APIS.values() if entry.name == api)
    return entry


@cache
def _request(api: str) -> type:
    kind: type = getattr(importlib.import_module(f"ottla.protocol.messages.{_entry(api).module}"), f"{api}Request")
    return kind


def _given(world: World, match: re.Match[str]) -> Any:
    name, path, add = match[1], match[2].split(".")[1:], int(match[3] or 0)
    if name == "node":
        return world.call(MetadataRequest(topics=[]), 9).brokers[0].node_id
    if name == "id":
        return uuid_text(_topic_id(world, world.real(path[0])))
    value = world.answers.get(name) or world.actors[name]
    for step in path or ["member_id" if name in world.answers else "member"]:
        value = value[int(step)] if step.isdigit() else getattr(value, step)
    return value + add if add else value


def _topic_id(world: World, topic: str) -> bytes:
    """Return the id of a topic. The id of a deleted topic is remembered."""
    name = world.shown(topic)
    if name not in world.topic_ids:
        world.topic_ids[name] = world.topic_id(topic)
    return world.topic_ids[name]


def _topic(world: World, topic_id: bytes) -> str:
    """Return the name of one of the case's own topics by its id."""
    if topic_id not in world.topic_ids.values():
        topics = world.call(MetadataRequest(topics=None), 12).topics
        world.topic_ids |= {world.shown(t.name): t.topic_id for t in topics if t.name.startswith(world.prefix)}
    known = world.spelled(topic_id)
    return known if known == "another" else PREFIX + known


def _masked(world: World, text: str) -> str:
    if _MEMBER.fullmatch(text):
        members = {name: actor.member for name, actor in world.actors.items()}
        members |= {name: getattr(answer, "member_id", "") for name, answer in world.answers.items()}
        return next((f"<{name}>" for name, member in members.items() if member == text), "<a member>")
    text = _CLUSTER_ID.sub('cluster id "..."', _NEEDS.sub("Request needs", text))
    return _REPEATED.sub(lambda match: f"<{match[1]}*{len(match[0])}>", text.replace(world.prefix, PREFIX))


def _loading(answer: Any) -> Code | None:
    if isinstance(answer, list):
        return next((code for code in map(_loading, answer) if code is not None), None)
    if not isinstance(answer, msgspec.Struct):
        return None
    code = getattr(answer, "error_code", Code.NONE)
    return Code(code) if code in LOADING else _loading([getattr(answer, name) for name in answer.__struct_fields__])


def _keep_own(world: World, api: str, answer: Any) -> None:
    """Remove entries of other cases from a response, and entries that depend on the hash of a name."""
    if api in _OF_ALL_CASES:
        listed = getattr(answer, _OF_ALL_CASES[api])
        listed[:] = [one for one in listed if world.prefix in repr(one) and _PROBE not in repr(one)]
    if api == "DescribeProducers":
        own = {actor.pid for actor in world.actors.values()}
        for partition in (p for topic in answer.topics for p in topic.partitions):
            partition.active_producers = [one for one in partition.active_producers if one.producer_id in own]
    if api == "DescribeTransactions":
        for topic in (t for state in answer.transaction_states for t in state.topics if t.topic == OFFSETS_TOPIC):
            topic.partitions = []


def _learn_ids(world: World, value: Any) -> None:
    """Remember the topic ids in a response. Their topics may be deleted before a later command needs the ids."""
    if isinstance(value, list):
        for one in value:
            _learn_ids(world, one)
    elif isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        name, topic_id = fields.get("name"), fields.get("topic_id", NO_UUID)
        if isinstance(name, str) and name.startswith(world.prefix) and topic_id != NO_UUID:
            world.topic_ids.setdefault(world.shown(name), topic_id)
        _learn_ids(world, list(fields.values()))


@verb
def await_coordinators(world: World, words: Words) -> str:
    """Wait until there are coordinators of groups and of transactional ids. Command: ``await_coordinators``."""
    for kind in (oracle.GROUP, oracle.TRANSACTION):
        oracle.coordinator_known(world, "any", kind)
    return ""


@verb
def await_topics(world: World, words: Words) -> str:
    """Wait until the coordinator of a group knows these topics. Command: ``await_topics g t,u``."""
    wait_for_topics(world, world.real(words.plain[0]), [world.real(name) for name in words.plain[1].split(",")])
    return ""


@verb
def await_share_states(world: World, words: Words) -> str:
    """Wait until the share coordinators know this number of partitions of a share group.

    Command: ``await_share_states g 3``. Apache Kafka initialises the state of newly shared partitions after the response to the
    heartbeat that shares them.
    """
    groups = [DescribeShareGroupOffsetsRequestGroup(group_id=world.real(words.plain[0]), topics=None)]
    request = DescribeShareGroupOffsetsRequest(groups=groups)
    world.until(
        f"the share coordinators know {words.plain[1]} partitions of {words.plain[0]!r}",
        lambda: world.call(request, 1),
        lambda answer: sum(len(topic.partitions) for topic in answer.groups[0].topics) >= int(words.plain[1]),
    )
    return ""


@verb
def await_share_coordinators(world: World, words: Words) -> str:
    """Wait until the share coordinators of these partitions have loaded, and know the partitions.

    Command: ``await_share_coordinators g t,t/1``.
    """
    have_coordinators(world, words)
    return ""
