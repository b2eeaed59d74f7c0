"""Scenario commands for several brokers: leaders, failures of brokers, and the responses of each broker.

``on=2`` sends a command's request to broker 2, ``on=C`` to the broker that the case has named C, and ``on=controller`` to the
controller.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.protocol.errors import Code
from ottla.protocol.java_hash import partition_for
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.protocol.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.simulation.client import Closed
from ottla.testing.cluster_handle import CONTROLLER
from tests.scenarios.several import GROUP, SETTINGS, TRANSACTION, SeveralTarget
from tests.scenarios.verbs import verb
from tests.scenarios.world import TIMEOUT_MS, Words, World, name_of
from tests.support import oracle

INTERNAL = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}
PARTITIONS = 50
"""Number of partitions of each internal topic."""
LONGEST_FETCH_MS = 3 * int(SETTINGS["replica.fetch.wait.max.ms"])
"""Longest time in ms that a replica fetch waits for records, with a margin."""


def target(world: World) -> SeveralTarget:
    assert isinstance(world.broker, SeveralTarget)
    return world.broker


def node(world: World, text: str) -> int:
    """Return the id of a broker that a command writes as an id, as a name from the case, or as ``controller``."""
    return CONTROLLER if text == "controller" else world.nodes[text] if text in world.nodes else int(text)


def shown_node(world: World, number: int) -> str:
    """Return the name that the case gave to a broker, or the broker's id.

    Names are used because the coordinator of an id differs between runs.
    """
    return next((name for name, known in world.nodes.items() if known == number), str(number))


def everybody(world: World, ask: Callable[[], str], wanted: str, nodes: list[int] | None = None) -> str:
    """Wait until each running broker gives the wanted response.

    Returns an empty string, or the other responses after the time limit.
    """

    def other_answers() -> list[str]:
        return [
            f"{broker} says: {answer}"
            for broker in (target(world).up if nodes is None else nodes)
            if (answer := asked(broker)) != wanted
        ]

    def asked(broker: int) -> str:
        with target(world).on(broker):
            try:
                return ask()
            except Closed:
                return "closed"

    return "; ".join(oracle.final_value(other_answers, lambda left: not left, clock=world.clock))


def numbers(ids: list[int] | None) -> str:
    return ",".join(map(str, ids or [])) or "nobody"


def described(world: World, name: str, index: int) -> str:
    """Return ``leader=1 e0 isr=1,2,3`` for a partition, or the error if it does not exist."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    topic = world.call(request, 12).topics[0]
    if topic.error_code:
        return name_of(topic.error_code)
    partition = next((p for p in topic.partitions if p.partition_index == index), None)
    if partition is None:
        return "no such partition"
    leader = "none" if partition.leader_id < 0 else str(partition.leader_id)
    return f"leader={leader} e{partition.leader_epoch} isr={numbers(sorted(partition.isr_nodes))}"


@verb
def replicas(world: World, words: Words) -> str:
    """Create a topic with one partition per list of brokers; the first broker of a list leads.

    Command: ``replicas t 1,2,3/2,3,1 [any.config=value]``.
    """
    name = world.real(words.plain[0])
    lists = [[int(broker) for broker in part.split(",")] for part in words.plain[1].split("/")]
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(lists)]
    configs = [CreatableTopicConfig(name=k, value=v) for k, v in words.options.items() if "." in k]
    wanted = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=configs)
    topic_result = world.call(CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)).topics[0]
    if topic_result.error_code:
        return f"{name_of(topic_result.error_code)} {topic_result.error_message}"
    for index, ids in enumerate(lists):
        able = [broker for broker in ids if broker in target(world).up]
        wrong = _known(world, (name, index), f"leader={able[0]} e0 isr={numbers(sorted(able))}")
        if wrong:
            return wrong
    return ""


def _known(world: World, where: tuple[str, int], wanted: str) -> str:
    """Wait until all running brokers describe the partition as ``wanted``, and its leader accepts requests.

    ``wanted`` is the beginning or the end of the text that `described` returns.
    """

    def says() -> str:
        text = described(world, *where)
        return wanted if text.startswith(f"{wanted} ") or text.endswith(f" {wanted}") or text == wanted else text

    return everybody(world, says, wanted) or _leads(world, where)


def _leads(world: World, where: tuple[str, int]) -> str:
    """Wait until only the leader accepts requests.

    A broker lists a new leader in its metadata before it becomes leader or follower.
    """
    leader = described(world, *where).removeprefix("leader=").split()[0]
    leads = partial(_leader_says, world, where)
    leading = [broker for broker in target(world).up if str(broker) == leader]
    others = [broker for broker in target(world).up if str(broker) != leader]
    return everybody(world, leads, "NONE", leading) or everybody(world, leads, "NOT_LEADER_OR_FOLLOWER", others)


def _leader_says(world: World, where: tuple[str, int]) -> str:
    """Return the error of a request that only a leader accepts."""
    asked = ListOffsetsPartition(partition_index=where[1], current_leader_epoch=-1, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(where[0], partitions=[asked])])
    return name_of(world.call(request, 7).topics[0].partitions[0].error_code)


@verb
def led(world: World, words: Words) -> str:
    """Wait until all running brokers know this leader, and the leader accepts requests. Command: ``led t 2|none``."""
    leader = "none" if words.plain[1] == "none" else str(node(world, words.plain[1]))
    # A requested change may not have been executed yet, so the brokers must be up to date before the comparison.
    world.wait_up_to_date()
    return _known(world, world.partition(words.plain[0]), f"leader={leader}")


@verb
def in_sync(world: World, words: Words) -> str:
    """Wait until all running brokers know exactly these in-sync replicas, and have applied the change.

    Command: ``in_sync t 1,2``.
    """
    # Also wait before the first comparison: an in-sync set that is about to shrink is still complete at this moment.
    world.wait_up_to_date()
    wrong = _known(world, world.partition(words.plain[0]), f"isr={words.plain[1]}")
    if not wrong:
        world.wait_up_to_date()
    return wrong


@verb
def partition(world: World, words: Words) -> str:
    """Show a partition's leader, epoch, replicas, and in-sync, eligible and offline replicas by DescribeTopicPartitions.

    Command: ``partition t``.
    """
    name, index = world.partition(words.plain[0])
    topic = world.call(DescribeTopicPartitionsRequest(topics=[DescribedTopic(name)])).topics[0]
    if topic.error_code:
        return name_of(topic.error_code)
    p = next(p for p in topic.partitions if p.partition_index == index)
    leader = "none" if p.leader_id < 0 else str(p.leader_id)
    lists = {"of": p.replica_nodes, "isr": sorted(p.isr_nodes)}
    further = {"offline": p.offline_replicas, "eligible": p.eligible_leader_replicas, "last": p.last_known_elr}
    lists |= {name: sorted(ids) for name, ids in further.items() if ids}
    text = f"{name_of(p.error_code)} leader={leader} e{p.leader_epoch}"
    return text + "".join(f" {name}={numbers(ids)}" for name, ids in lists.items())


@verb
def move(world: World, words: Words) -> str:
    """Make another replica the preferred leader, elect it, and wait until all brokers know it. Command: ``move t 2``."""
    name, index = world.partition(words.plain[0])
    to = node(world, words.plain[1])
    before = described(world, name, index)
    target(world).cluster.move_leader(name, index, to)
    now: str = world.until(
        f"the leader of {name}/{index} is {to} and not {before}",
        lambda: described(world, name, index),
        lambda now: now != before and now.startswith(f"leader={to} "),
    )
    return _known(world, (name, index), now)


def coordinator_of(world: World, key: str, kind: int) -> int | None:
    answer = world.call(FindCoordinatorRequest(key=key, key_type=kind), 3)
    return None if answer.error_code else answer.node_id


@verb
def who(world: World, words: Words) -> str:
    """Give the name C to the broker that coordinates an id. Command: ``C = who x [group]``."""
    kind = GROUP if words.has("group") else TRANSACTION
    key = world.real(words.plain[0])
    found = world.until(
        f"the coordinator of {key!r} is known", lambda: coordinator_of(world, key, kind), lambda broker: broker is not None
    )
    world.nodes[words.name] = found
    return _coordinates(world, key, kind, found)


@verb
def another(world: World, words: Words) -> str:
    """Give the name D to a broker that is neither C nor E. Command: ``D = another C [E]``."""
    others = {node(world, text) for text in words.plain}
    world.nodes[words.name] = next(broker for broker in target(world).cluster.brokers if broker not in others)
    return ""


@verb
def find(world: World, words: Words) -> str:
    """Show the coordinator in the response to FindCoordinator. Command: ``find x [group]``."""
    answer = world.call(FindCoordinatorRequest(key=world.real(words.plain[0]), key_type=int(not words.has("group"))), 3)
    return name_of(answer.error_code) if answer.error_code else f"NONE {shown_node(world, answer.node_id)}"


@verb
def move_coordinator(world: World, words: Words) -> str:
    """Move the coordinator of an id to the broker D. Wait until D has loaded its log and all brokers know.

    Command: ``move_coordinator x D [group]``.
    """
    kind = GROUP if words.has("group") else TRANSACTION
    key, to = world.real(words.plain[0]), node(world, words.plain[1])
    target(world).cluster.move_leader(INTERNAL[kind], partition_for(key, PARTITIONS), to)
    return _coordinates(world, key, kind, to)


@verb
def coordinates(world: World, words: Words) -> str:
    """Wait until all running brokers know that D coordinates an id, and D has loaded. Command: ``coordinates x D [group]``."""
    kind = GROUP if words.has("group") else TRANSACTION
    return _coordinates(world, world.real(words.plain[0]), kind, node(world, words.plain[1]))


def _coordinates(world: World, key: str, kind: int, broker: int) -> str:
    wrong = everybody(world, lambda: str(coordinator_of(world, key, kind)), str(broker))
    others = [other for other in target(world).up if other != broker]
    return wrong or (
        everybody(world, lambda: _is_asked(world, key, kind), "coordinates", [broker])
        or everybody(world, lambda: _is_asked(world, key, kind), "NOT_COORDINATOR", others)
    )


def _is_asked(world: World, key: str, kind: int) -> str:
    """Return ``coordinates`` if the broker coordinates the id, else the error code of its response."""
    if kind == TRANSACTION:
        code = world.call(DescribeTransactionsRequest([key])).transaction_states[0].error_code
    else:
        code = world.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(key, topics=None)]), 8).groups[0].error_code
    return "coordinates" if code in (Code.NONE, Code.TRANSACTIONAL_ID_NOT_FOUND) else name_of(code)


def _goes(world: World, words: Words, how: Callable[[int], object]) -> str:
    broker = node(world, words.plain[0])
    target(world).down.add(broker)
    how(broker)
    world.forget_connection()
    return ""


@verb
def crash(world: World, words: Words) -> str:
    """Send SIGKILL to a broker. The controller notices when the session expires. Command: ``crash 1``."""
    return _goes(world, words, target(world).cluster.kill)


@verb
def shut_down(world: World, words: Words) -> str:
    """Stop a broker cleanly. The broker first moves its leaderships to other brokers. Command: ``shut_down 1``."""
    return _goes(world, words, target(world).cluster.shut_down)


@verb
def pause(world: World, words: Words) -> str:
    """Suspend a broker, whose connections stay open. Wait until the leaders have answered its pending fetches.

    Command: ``pause 1``.
    """
    _goes(world, words, target(world).cluster.pause)
    world.broker.sleep(LONGEST_FETCH_MS)
    return ""


@verb
def resume(world: World, words: Words) -> str:
    broker = node(world, words.plain[0])
    target(world).cluster.resume(broker)
    target(world).down.discard(broker)
    return ""


@verb
def boot(world: World, words: Words) -> str:
    """Start a broker that was killed or stopped. Wait until the metadata of all brokers lists it. Command: ``boot 1``."""
    broker = node(world, words.plain[0])
    target(world).cluster.restart(broker)
    target(world).down.discard(broker)
    return everybody(world, lambda: _is_shown(world, broker), "yes")


@verb
def fenced(world: World, words: Words) -> str:
    """Wait until no broker lists this broker in its metadata. Command: ``fenced 1``."""
    broker = node(world, words.plain[0])
    return everybody(world, lambda: _is_shown(world, broker), "no")


def _is_shown(world: World, broker: int) -> str:
    return "yes" if broker in [b.node_id for b in world.call(MetadataRequest(topics=[]), 12).brokers] else "no"


def topic_id(world: World, name: str) -> bytes:
    """Return a topic's id from a running broker, whatever broker the current command names with ``on``."""
    with target(world).on(target(world).up[0]):
        return world.topic_id(name)
