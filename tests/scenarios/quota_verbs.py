"""Scenario commands for the quotas of clients: set them, and send requests as clients that have them."""

from __future__ import annotations

from typing import Any

from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.simulation.client import Closed
from tests.scenarios.verbs import VERBS, verb
from tests.scenarios.world import TIMEOUT_MS, Ask, OwnConnection, Words, World, name_of

TYPES = {"user": "user", "client": "client-id", "ip": "ip"}
ALL = "default"
"""Name of the default quota, which applies to users, clients or addresses without a quota of their own."""
SLACK_MS = 50
"""A response may take this time to reach the client."""
_VERSIONS = ApiVersionsRequest(client_software_name="tests", client_software_version="1")


@verb
def quota(world: World, words: Words) -> str:
    """Set or remove quotas of an entity, and wait until they take effect.

    Command: ``quota client=p producer_byte_rate=1000 [consumer_byte_rate=none] [user=ANONYMOUS] [ip=default]``. ``default`` is the
    default entity. Names of clients get the case's prefix.
    """
    entity = [
        EntityData(entity_type=kind, entity_name=_name(world, option, words.options[option]))
        for option, kind in TYPES.items()
        if option in words.options
    ]
    ops = [
        OpData(key=key, value=0.0 if value == "none" else float(value), remove=value == "none")
        for key, value in words.options.items()
        if key not in TYPES
    ]
    answer = world.call(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)], validate_only=False))
    if world.target == "kafka":
        world.wait_up_to_date()
    return name_of(answer.entries[0].error_code)


def _name(world: World, option: str, text: str) -> str | None:
    if text == ALL:
        return None
    return world.real(text) if option == "client" else text


def _own(world: World, name: str) -> OwnConnection:
    """Return the connection of a name. ``p/2`` is another connection of the client ``p``."""
    if name not in world.own:
        world.own[name] = OwnConnection(world.broker.connect(world.real(name.partition("/")[0])))
    return world.own[name]


@verb
def do_as(world: World, words: Words) -> str:
    """Send the request of another command as a client, on a connection of its own; shows the throttle time if it is not 0.

    Command: ``as p produce A t size=2000 [up=1000] [brief]``. With ``up`` the time is rounded up to a multiple, because it depends
    on the time between two requests. With ``brief`` only the throttle time is shown.
    """
    own, inner = _own(world, words.plain[0]), Words(words.name, words.plain[1], words.plain[2:], words.options, words.json)
    up_ms = words.number("up", 1)
    words.options.pop("up", None)
    made = VERBS[inner.verb](world, inner)
    assert isinstance(made, Ask)
    try:
        answer = own.client.call(made.request, made.version)
    except Closed:
        return "closed"
    wait_ms: int = getattr(answer, "throttle_time_ms", 0)
    own.throttled_until_ms = world.broker.now_ms() + wait_ms
    if wait_ms:
        # Some commands show all fields of the response, which include the throttle time; it must not be shown twice.
        answer.throttle_time_ms = 0
    throttled = f"throttled {-(-wait_ms // up_ms) * up_ms}" if wait_ms else ""
    if words.has("brief"):
        return throttled or "not throttled"
    return f"{_shown(made, answer)} {throttled}".rstrip()


def _shown(made: Ask, answer: Any) -> str:
    if hasattr(answer, "responses") and not answer.responses:
        return "no partitions"
    return made.show(answer)


@verb
def unanswered(world: World, words: Words) -> str:
    """Send a Produce request with acks=0 as a client. Command: ``unanswered p produce A t size=2000 acks=0 wait=9000``.

    ``wait`` is the throttle time that is expected, in ms.
    """
    own, wait_ms = _own(world, words.plain[0]), words.number("wait", 0)
    words.options.pop("wait")
    made = VERBS[words.plain[1]](world, Words("", words.plain[1], words.plain[2:], words.options, ""))
    assert isinstance(made, Ask) and made.version is not None
    own.client.send(made.request, made.version)
    own.throttled_until_ms = world.broker.now_ms() + wait_ms
    return ""


@verb
def muted(world: World, words: Words) -> str:
    """Send a request as a client; shows whether the broker delayed it by the throttle time. Command: ``muted p``."""
    own = _own(world, words.plain[0])
    began_ms = world.broker.now_ms()
    if own.throttled_until_ms - began_ms < SLACK_MS:
        return "not throttled"
    own.client.call(_VERSIONS)
    return "yes" if world.broker.now_ms() >= own.throttled_until_ms - SLACK_MS else "no"


@verb
def connections(world: World, words: Words) -> str:
    """Open connections, one after another; shows how many of them get a response. Command: ``connections 12``."""
    answered, count = 0, int(words.plain[0])
    for _ in range(count):
        client = world.connect()
        try:
            client.call(_VERSIONS)
            answered += 1
        except Closed:
            pass
        client.close()
    return f"{answered} of {count}"


def _counts(words: Words) -> list[tuple[str, int]]:
    """Parse ``x=20,y=1``, which the parser of commands has split at the first ``=``."""
    text = ",".join(f"{name}={count}" for name, count in words.options.items() if name != "v")
    return [(name, int(count)) for name, _, count in (part.partition("=") for part in text.split(","))]


@verb
def topics(world: World, words: Words) -> Ask:
    """Send CreateTopics with topics' partition counts; ``dry`` only validates. Command: ``topics v=7 x=20,y=1 [dry]``."""
    wanted = [CreatableTopic(name=world.real(name), num_partitions=count, replication_factor=1) for name, count in _counts(words)]
    request = CreateTopicsRequest(topics=wanted, timeout_ms=TIMEOUT_MS, validate_only=words.has("dry"))
    return Ask(request, words.version(), lambda answer: " ".join(name_of(topic.error_code) for topic in answer.topics))


@verb
def partitions(world: World, words: Words) -> Ask:
    """Send CreatePartitions with new numbers of partitions. Command: ``partitions v=3 t=4,u=2``."""
    wanted = [CreatePartitionsTopic(name=world.real(name), count=count, assignments=None) for name, count in _counts(words)]
    request = CreatePartitionsRequest(topics=wanted, timeout_ms=TIMEOUT_MS, validate_only=False)
    return Ask(request, words.version(), lambda answer: " ".join(name_of(topic.error_code) for topic in answer.results))


@verb
def deleted(world: World, words: Words) -> Ask:
    """Send DeleteTopics for topics by name. Command: ``deleted v=6 t,u``."""
    names = [world.real(name) for name in words.plain[0].split(",")]
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name) for name in names], topic_names=names, timeout_ms=TIMEOUT_MS)
    return Ask(request, words.version(), lambda answer: " ".join(name_of(topic.error_code) for topic in answer.responses))
