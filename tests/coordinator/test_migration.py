"""Groups with members change over between the classic and the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group import named_topics
from ottla.coordinator.group.classic.group import GroupState
from ottla.coordinator.group.consumer.member import ClassicMember, MemberState
from ottla.coordinator.group.consumer_protocol import read_assignment
from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.group.requests import MigrationPolicy
from ottla.protocol.codec import encode_record
from ottla.protocol.errors import Code
from ottla.protocol.messages import consumer_protocol_assignment
from ottla.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tests.coordinator.consumer_world import topic_id
from tests.coordinator.mixed_world import (
    CONSUMER_SESSION_MS,
    COOPERATIVE,
    EAGER,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ClassicClient,
    ConsumerClient,
    MixedWorld,
    subscription,
)
from tests.coordinator.test_consumer_heartbeats import refused

ALL = {"t": frozenset(range(6))}


@pytest.fixture
def world() -> MixedWorld:
    return MixedWorld()


def classic_group(world: MixedWorld, *clients: ClassicClient) -> None:
    world.settle(clients)
    assert (world.kind, world.shard.groups[GROUP].state) == ("classic", GroupState.STABLE)


def mixed(world: MixedWorld, **given: Any) -> tuple[ClassicClient, ConsumerClient]:
    """A group of a member of each protocol, at rest."""
    classic, consumer = ClassicClient(**given), ConsumerClient("new")
    classic_group(world, classic)
    world.settle([consumer, classic])
    assert (world.kind, len(world.shard.consumers.groups[GROUP].members)) == ("consumer", 2)
    return classic, consumer


# from classic to consumer


@pytest.mark.entry("GRP-69")
def test_a_heartbeat_makes_a_consumer_group_of_a_classic_one(world: MixedWorld) -> None:
    classic = ClassicClient()
    classic_group(world, classic)
    generation = classic.generation
    before = len(world.log)
    answer = world.beat(ConsumerClient("new"))
    assert (answer.member_epoch, answer.assignment) == (generation + 1, {}), "what it is to have is with the other"
    assert world.kind == "consumer"
    assert world.log[before].value is None, "the classic group leaves the log first"
    group = world.shard.consumers.groups[GROUP]
    old = group.members[classic.member_id]
    assert (old.member_epoch, old.previous_epoch, old.state) == (generation, generation, MemberState.STABLE)
    assert old.assigned == {topic_id("t"): dict.fromkeys(range(6), generation)}
    assert old.classic == ClassicMember(SESSION_MS, ((EAGER, subscription("t")),))
    assert (old.rebalance_timeout_ms, old.client_id, old.client_host) == (REBALANCE_MS, "client", "/host")
    assert group.sessions_ms == {classic.member_id: world.now_ms + SESSION_MS, "new": world.now_ms + CONSUMER_SESSION_MS}
    world.reload()


@pytest.mark.parametrize("assignors", [(EAGER,), (COOPERATIVE,), (COOPERATIVE, EAGER)])
def test_the_members_of_both_protocols_share_the_partitions(world: MixedWorld, assignors: tuple[str, ...]) -> None:
    clients = [ClassicClient(assignors=assignors) for _ in range(3)]
    classic_group(world, *clients)
    consumer = ConsumerClient("new")
    world.settle([consumer, *clients])
    assert sorted(len(c.owned.get("t", ())) for c in (consumer, *clients)) == [1, 1, 2, 2]
    world.reload()
    world.settle([consumer, *clients])


@pytest.mark.entry("GRP-70")
def test_members_that_wait_in_a_rebalance_are_to_join_again(world: MixedWorld) -> None:
    first, second = ClassicClient(), ClassicClient()
    classic_group(world, first)
    second.is_parked = True
    assert world.join(second) is None
    world.beat(ConsumerClient("new"))
    assert second.joined is not None
    assert (second.joined.code, second.joined.member_id) == (Code.REBALANCE_IN_PROGRESS, second.member_id)


@pytest.mark.entry("GRP-70")
def test_members_that_wait_for_their_assignment_are_to_join_again(world: MixedWorld) -> None:
    first, second = ClassicClient(), ClassicClient()
    classic_group(world, first)
    world.join(second)
    world.join(first)
    follower = second if first.joined is not None and first.joined.leader == first.member_id else first
    assert world.sync(follower) is None
    world.beat(ConsumerClient("new"))
    assert follower.synced is not None
    assert follower.synced.code is Code.REBALANCE_IN_PROGRESS


def test_a_group_in_its_first_rebalance_changes_over_too(world: MixedWorld) -> None:
    """Apache Kafka fails here, for such a group has no protocol yet."""
    world = MixedWorld(options={"initial_rebalance_delay_ms": 3_000})
    classic = ClassicClient()
    assert world.join(classic) is None
    consumer = ConsumerClient("new")
    world.beat(consumer)
    assert classic.joined is not None
    assert classic.joined.code is Code.REBALANCE_IN_PROGRESS
    classic.joined = None
    world.settle([consumer, classic])


def assigned(world: MixedWorld, assignment: bytes) -> None:
    """A classic group of one, whose leader has given itself this."""
    client = ClassicClient()
    world.join(client)
    world.sync(client, assignments={client.member_id: assignment})


@pytest.mark.entry("GRP-71")
def test_what_is_not_upgraded(world: MixedWorld) -> None:
    new = ConsumerClient("new")
    message = ConsumerProtocolAssignment([TopicPartition(topic="t", partitions=[0])], user_data=b"own")
    assigned(world, encode_record(consumer_protocol_assignment, message, 0))
    with refused(Code.GROUP_ID_NOT_FOUND, "because an unsupported custom assignor is in use."):
        world.beat(new)
    world = MixedWorld()
    assigned(world, b"\0")
    with refused(Code.GROUP_ID_NOT_FOUND, "because the embedded consumer protocol is malformed."):
        world.beat(new)
    world = MixedWorld()
    world.join(ClassicClient(), protocol_type="connect")
    with refused(Code.GROUP_ID_NOT_FOUND, "because the group does not use the consumer embedded protocol."):
        world.beat(new)
    world = MixedWorld()
    world.join(ClassicClient(), protocols=[(EAGER, b"sub")])
    with refused(Code.GROUP_ID_NOT_FOUND, "because the embedded consumer protocol is malformed."):
        world.beat(new)
    with refused(Code.GROUP_ID_NOT_FOUND, "is not a consumer group."):
        world.leave(new)
    assert world.kind == "classic"


def test_a_partition_that_two_members_have_keeps_the_group_classic(world: MixedWorld) -> None:
    first, second = ClassicClient(), ClassicClient()
    classic_group(world, first, second)
    world.join(first)
    world.join(second)
    world.join(first)
    leader = next(c for c in (first, second) if c.joined is not None and c.joined.leader == c.member_id)
    both = encode_record(consumer_protocol_assignment, ConsumerProtocolAssignment([TopicPartition(topic="t", partitions=[0])]), 0)
    world.sync(leader, generation=world.shard.groups[GROUP].generation, assignments={c.member_id: both for c in (first, second)})
    with refused(Code.GROUP_ID_NOT_FOUND, "because a partition is assigned to several members."):
        world.beat(ConsumerClient("new"))


# members of the classic protocol in a consumer group


@pytest.mark.entry("GRP-72")
def test_a_classic_member_joins_a_consumer_group(world: MixedWorld) -> None:
    consumer = ConsumerClient("new")
    world.beat(consumer)
    classic = ClassicClient()
    answer = world.join(classic)
    assert answer is not None
    assert (answer.code, answer.generation, answer.protocol_type, answer.protocol) == (Code.NONE, 3, "consumer", EAGER)
    assert (answer.leader, answer.members, answer.skip_assignment) == ("", [], False)
    group = world.shard.consumers.groups[GROUP]
    assert group.syncs_ms == {classic.member_id: world.now_ms + REBALANCE_MS}
    assert group.sessions_ms[classic.member_id] == world.now_ms + SESSION_MS
    synced = world.sync(classic)
    assert synced is not None
    assert (synced.code, synced.protocol_type, synced.protocol) == (Code.NONE, "consumer", EAGER)
    assert read_assignment(synced.assignment).partitions == {}
    assert group.syncs_ms == {}
    classic.is_joining = False
    world.settle([consumer, classic])
    world.reload()


def test_who_has_no_id_is_to_come_again(world: MixedWorld) -> None:
    world.beat(ConsumerClient("new"))
    answers: list[Any] = []
    client = ClassicClient()
    world.join(client, needs_known_id=False, member_id="", waiter=answers.append, instance_id="i")
    assert answers[0].code is Code.NONE, "an instance needs no id"
    before = len(world.log)
    client = ClassicClient()
    world.join(client, waiter=answers.append)
    assert (answers[1].code, bool(answers[1].member_id), len(world.log)) == (Code.MEMBER_ID_REQUIRED, True, before)


def test_what_a_classic_member_is_refused(world: MixedWorld) -> None:
    classic, _ = mixed(world)
    unfit: list[list[tuple[str, bytes]]] = [[], [("other", b"")], [(EAGER, b"\0")]]
    for given in ({"protocol_type": "connect"}, *({"protocols": protocols} for protocols in unfit)):
        with refused(Code.INCONSISTENT_GROUP_PROTOCOL):
            world.join(ClassicClient(), needs_known_id=False, **given)
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.join(ClassicClient(instance_id="i"), member_id="x")
    generation, member_id = classic.generation, classic.member_id
    for given, code in (
        ({"generation": generation + 1}, Code.ILLEGAL_GENERATION),
        ({"member_id": "x"}, Code.UNKNOWN_MEMBER_ID),
        ({"member_id": "new"}, Code.UNKNOWN_MEMBER_ID),
        ({"instance_id": "i"}, Code.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": "other"}, Code.INCONSISTENT_GROUP_PROTOCOL),
    ):
        with refused(code):
            world.sync(classic, **given)
    for args, code in (
        ((generation + 1, member_id, None), Code.ILLEGAL_GENERATION),
        ((generation, "x", None), Code.UNKNOWN_MEMBER_ID),
        ((generation, "new", None), Code.UNKNOWN_MEMBER_ID),
        ((generation, member_id, "i"), Code.UNKNOWN_MEMBER_ID),
    ):
        with refused(code):
            world.shard.classic_heartbeat(GROUP, *args, world.now_ms)


def test_a_full_group_takes_no_more(world: MixedWorld) -> None:
    classic, _ = mixed(world)
    world.most_consumers = 2
    with refused(Code.GROUP_MAX_SIZE_REACHED):
        world.join(ClassicClient())
    assert world.join(classic) is not None
    world = MixedWorld(options={"max_size": 1})
    world.beat(ConsumerClient("a"))
    assert world.join(ClassicClient()) is not None, "the limit of classic groups is not that of consumer groups"


def test_a_classic_group_that_is_too_large_is_not_upgraded(world: MixedWorld) -> None:
    classic_group(world, ClassicClient(), ClassicClient())
    world.most_consumers = 1
    with refused(Code.GROUP_ID_NOT_FOUND, "because the group size exceeds the consumer group maximum size."):
        world.beat(ConsumerClient("new"))
    world.most_consumers = 2
    with refused(Code.GROUP_MAX_SIZE_REACHED):
        world.beat(ConsumerClient("new"))
    assert world.kind == "classic"


def test_topics_are_as_many_as_in_other_consumer_groups(world: MixedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_topics, "MAX_MEMBER_TOPICS", 3)
    monkeypatch.setattr(named_topics, "MAX_GROUP_TOPICS", 4)
    mixed(world)
    with refused(Code.INVALID_REQUEST):
        world.join(ClassicClient(topics=("a", "b", "c", "d")), needs_known_id=False)
    assert world.join(ClassicClient(topics=("a", "b", "c")), needs_known_id=False) is not None
    with refused(Code.INVALID_REQUEST):
        world.join(ClassicClient(topics=("e",)), needs_known_id=False)


@pytest.mark.parametrize("name", ["MAX_MEMBER_TOPICS", "MAX_GROUP_TOPICS"])
def test_a_classic_group_of_too_many_topics_is_not_upgraded(world: MixedWorld, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    classic_group(world, ClassicClient(topics=("a", "b")), ClassicClient(topics=("c",)))
    monkeypatch.setattr(named_topics, name, 1)
    with refused(Code.GROUP_ID_NOT_FOUND, "topics by name, and may subscribe to 1 at most."):
        world.beat(ConsumerClient("new"))
    assert world.kind == "classic"


def test_an_assignment_has_the_version_of_the_members_subscription(world: MixedWorld) -> None:
    consumer = ConsumerClient("new")
    world.beat(consumer)
    for version, expected in ((0, 0), (3, 3), (9, 3)):
        client = ClassicClient()
        metadata = version.to_bytes(2, "big") + subscription("t", version=min(version, 3))[2:]
        world.join(client, protocols=[(EAGER, metadata)], rebalance_timeout_ms=1)
        synced = world.sync(client)
        assert synced is not None
        assert int.from_bytes(synced.assignment[:2], "big") == expected
        world.leave_classic(client)


@pytest.mark.entry("GRP-73")
def test_an_older_assignment_is_fetched_only_by_who_has_joined_again(world: MixedWorld) -> None:
    classic, _ = mixed(world)
    world.beat(ConsumerClient("another"))
    with refused(Code.REBALANCE_IN_PROGRESS):
        world.sync(classic)
    assert world.classic_beat(classic) is Code.REBALANCE_IN_PROGRESS
    joins = dict(world.shard.consumers.groups[GROUP].joins_ms)
    assert joins == {classic.member_id: world.now_ms + REBALANCE_MS}
    world.now_ms += 1_000
    assert world.classic_beat(classic) is Code.REBALANCE_IN_PROGRESS
    assert world.shard.consumers.groups[GROUP].joins_ms == joins, "the time runs from the first time on"
    world.join(classic)
    assert world.shard.consumers.groups[GROUP].joins_ms == {}


@pytest.mark.entry("GRP-73")
def test_a_member_that_waits_for_others_is_left_alone_until_they_have_given_up(world: MixedWorld) -> None:
    consumer = ConsumerClient("new")
    world.beat(consumer)
    classic = ClassicClient()
    world.join(classic)
    world.sync(classic)
    assert world.classic_beat(classic) is Code.NONE, "what it is to have is with the other"
    world.beat(consumer)
    assert world.classic_beat(classic) is Code.NONE
    world.beat(consumer)
    assert world.classic_beat(classic) is Code.REBALANCE_IN_PROGRESS


@pytest.mark.entry("GRP-75")
@pytest.mark.parametrize("why", ["session", "join", "sync"])
def test_a_classic_member_that_is_late_is_gone(world: MixedWorld, why: str) -> None:
    classic, consumer = mixed(world)
    if why == "sync":
        world.join(classic)
    if why == "join":
        world.beat(ConsumerClient("another"))
    left_ms = SESSION_MS if why == "session" else REBALANCE_MS
    for _ in range(left_ms // 1_000):
        assert classic.member_id in world.shard.consumers.groups[GROUP].members
        world.beat(consumer)
        if why != "session":
            world.classic_beat(classic)
        world.tick(1_000)
    assert classic.member_id not in world.shard.consumers.groups[GROUP].members
    assert world.classic_beat(classic) is Code.UNKNOWN_MEMBER_ID


def test_after_a_start_a_classic_member_has_the_groups_session(world: MixedWorld) -> None:
    """As in Apache Kafka, until it is heard of."""
    classic, _ = mixed(world)
    world.reload()
    group = world.shard.consumers.groups[GROUP]
    assert group.sessions_ms[classic.member_id] == world.now_ms + CONSUMER_SESSION_MS
    world.classic_beat(classic)
    assert group.sessions_ms[classic.member_id] == world.now_ms + SESSION_MS


def commit(world: MixedWorld, epoch: int, member_id: str, *, newest: bool = False, transactional: bool = False) -> Code:
    where = ("t", 0)
    offsets = {where: CommittedOffset(5, -1, "", world.now_ms)}
    result = world.shard.commit(
        GROUP, epoch, member_id, None, offsets, world.now_ms, transactional=transactional, has_newest_rules=newest
    )
    code: Code = world.carry_out(result)[where]
    return code


@pytest.mark.entry("GRP-76")
@pytest.mark.parametrize("newest", [False, True])
def test_classic_members_commit_by_generations_in_any_version(world: MixedWorld, newest: bool) -> None:
    classic, _ = mixed(world)
    member_id, generation = classic.member_id, classic.generation
    assert commit(world, generation, member_id, newest=newest) is Code.NONE
    with refused(
        Code.ILLEGAL_GENERATION, f"Received generation id {generation + 1} is newer than current member epoch {generation}."
    ):
        commit(world, generation + 1, member_id, newest=newest)
    with refused(Code.ILLEGAL_GENERATION):
        commit(world, generation - 2, member_id, newest=newest, transactional=True)
    with refused(Code.ILLEGAL_GENERATION, "The received generation id 1 does not match the expected member epoch"):
        world.shard.check_fetch(GROUP, member_id, 1)
    with refused(Code.UNSUPPORTED_VERSION if not newest else Code.STALE_MEMBER_EPOCH):
        commit(world, 99, "new", newest=newest)


@pytest.mark.entry("GRP-74")
def test_a_cooperative_member_joins_until_it_has_given_up(world: MixedWorld) -> None:
    classic = ClassicClient(assignors=(COOPERATIVE,))
    classic_group(world, classic)
    generation = classic.generation
    consumer = ConsumerClient("new")
    world.beat(consumer)
    for _ in range(2):
        answer = world.join(classic)
        assert answer is not None
        assert answer.generation == generation, "it owns still what it is to give up"
    synced = world.sync(classic)
    assert synced is not None
    assert world.classic_beat(classic) is Code.REBALANCE_IN_PROGRESS
    world.take_assignment(classic, synced)
    assert (classic.is_joining, len(classic.owned["t"])) == (True, 3)
    answer = world.join(classic)
    assert answer is not None
    assert answer.generation == generation + 1
    world.beat(consumer)
    assert len(consumer.owned["t"]) == 3


# from consumer to classic


@pytest.mark.entry("GRP-77")
def test_when_the_last_consumer_leaves_the_group_is_classic_again(world: MixedWorld) -> None:
    classic, consumer = mixed(world, assignors=(COOPERATIVE, EAGER))
    assert commit(world, classic.generation, classic.member_id) is Code.NONE
    epoch = world.shard.consumers.groups[GROUP].group_epoch
    world.leave(consumer)
    group = world.shard.groups[GROUP]
    assert (world.kind, group.state, group.generation) == ("classic", GroupState.PREPARING_REBALANCE, epoch)
    member = group.members[classic.member_id]
    assert [name for name, _ in member.protocols] == [COOPERATIVE, EAGER]
    assert group.protocol == COOPERATIVE
    assert (member.session_timeout_ms, member.rebalance_timeout_ms, group.leader) == (SESSION_MS, REBALANCE_MS, classic.member_id)
    assert world.shard.fetch(GROUP, require_stable=False).get("t", 0) is not None, "offsets stay"
    assert world.classic_beat(classic) is Code.REBALANCE_IN_PROGRESS
    world.reload()
    group = world.shard.groups[GROUP]
    assert (group.state, group.generation) == (GroupState.STABLE, epoch), "a start knows of no rebalance, as in Apache Kafka"
    assert read_assignment(group.assignments[classic.member_id]).partitions == classic.owned


@pytest.mark.parametrize("how", ["left", "removed", "late"])
def test_however_the_last_consumer_goes(world: MixedWorld, how: str) -> None:
    classic, consumer = mixed(world)
    if how == "left":
        world.leave(consumer)
    elif how == "removed":
        assert world.run(lambda: world.shard.leave(GROUP, [("new", None)], world.now_ms)) == [Code.NONE]
    else:
        for _ in range(CONSUMER_SESSION_MS // 1_000):
            assert world.kind == "consumer"
            world.step(classic)
            world.tick(1_000)
    assert world.kind == "classic"
    world.settle([classic])
    assert classic.owned == ALL
    world.tick(SESSION_MS)
    assert world.shard.groups[GROUP].state is GroupState.EMPTY, "sessions go on as those of a classic group"


@pytest.mark.entry("GRP-79")
@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_where_it_may_not_become_classic_it_stays_a_consumer_group(world: MixedWorld, policy: MigrationPolicy) -> None:
    classic, consumer = mixed(world)
    world.restart(policy)
    world.leave(consumer)
    assert (world.kind, list(world.shard.consumers.groups[GROUP].members)) == ("consumer", [classic.member_id])
    if policy is MigrationPolicy.DISABLED:
        with refused(Code.INCONSISTENT_GROUP_PROTOCOL):
            world.join(classic)
    else:
        world.join(classic)
        synced = world.sync(classic)
        assert synced is not None
        assert read_assignment(synced.assignment).partitions == ALL


def test_too_many_members_for_a_classic_group_stay_in_a_consumer_group() -> None:
    world = MixedWorld(options={"max_size": 1})
    consumer, classics = ConsumerClient("new"), [ClassicClient(), ClassicClient()]
    world.beat(consumer)
    world.settle([consumer, *classics])
    world.leave(consumer)
    assert world.kind == "consumer"
    world.leave_classic(classics.pop())
    assert world.kind == "classic"


def test_the_last_members_of_both_protocols_leave_an_empty_consumer_group(world: MixedWorld) -> None:
    classic, _ = mixed(world)
    leaving = [(classic.member_id, None), ("new", None)]
    assert world.run(lambda: world.shard.leave(GROUP, leaving, world.now_ms)) == [Code.NONE, Code.NONE]
    view = world.shard.view(GROUP)
    assert view is not None
    assert (view.type_name, view.state_name) == ("consumer", "Empty")


# static members


@pytest.mark.entry("GRP-78")
def test_a_static_member_goes_over_in_its_place(world: MixedWorld) -> None:
    static, other = ClassicClient(instance_id="i"), ClassicClient()
    classic_group(world, static, other)
    had = static.owned
    upgraded = ConsumerClient("new", instance_id="i")
    world.beat(upgraded)
    group = world.shard.consumers.groups[GROUP]
    assert (upgraded.owned, sorted(group.members)) == (had, sorted([other.member_id, "new"]))
    assert world.classic_beat(static) is Code.FENCED_INSTANCE_ID
    world.settle([upgraded, other])
    assert upgraded.owned == had
    assert group.classic_count == 1
    world.reload()


@pytest.mark.entry("GRP-78")
def test_and_back(world: MixedWorld) -> None:
    static, other = ConsumerClient("c", instance_id="i"), ClassicClient()
    world.beat(static)
    world.settle([static, other])
    epoch = world.shard.consumers.groups[GROUP].group_epoch
    had = static.owned
    back = ClassicClient(instance_id="i")
    answer = world.join(back)
    assert answer is not None
    assert (answer.code, answer.generation, answer.leader) == (Code.NONE, epoch, "")
    group = world.shard.groups[GROUP]
    assert (world.kind, group.state, group.generation) == ("classic", GroupState.STABLE, epoch), "nobody has to join again"
    assert sorted(group.members) == sorted([back.member_id, other.member_id])
    synced = world.sync(back)
    assert synced is not None
    assert read_assignment(synced.assignment).partitions == had
    assert world.classic_beat(other) is Code.NONE
    assert world.classic_beat(back) is Code.NONE
    world.reload()
    world.take_assignment(back, synced)
    world.settle([back, other])


def test_a_static_member_that_comes_back_with_another_subscription_has_the_group_rebalance(world: MixedWorld) -> None:
    static, other = ConsumerClient("c", instance_id="i"), ClassicClient()
    world.beat(static)
    world.settle([static, other])
    epoch = world.shard.consumers.groups[GROUP].group_epoch
    back = ClassicClient(instance_id="i", topics=("t", "u"))
    answer = world.join(back)
    assert answer is not None
    assert (answer.code, answer.generation) == (Code.NONE, 0)
    group = world.shard.groups[GROUP]
    assert (group.state, group.generation) == (GroupState.PREPARING_REBALANCE, epoch)
    with refused(Code.ILLEGAL_GENERATION):
        world.sync(back)
    world.reload()


def test_a_static_classic_member_replaces_another_in_a_consumer_group(world: MixedWorld) -> None:
    consumer, static = ConsumerClient("new"), ClassicClient(instance_id="i")
    world.beat(consumer)
    world.settle([consumer, static])
    had = static.owned
    restarted = ClassicClient(instance_id="i")
    world.join(restarted)
    assert world.kind == "consumer"
    assert restarted.member_id != static.member_id
    with refused(Code.FENCED_INSTANCE_ID):
        world.sync(static)
    with refused(Code.FENCED_INSTANCE_ID):
        world.join(static)
    synced = world.sync(restarted)
    assert synced is not None
    assert read_assignment(synced.assignment).partitions == had


def test_a_consumer_may_become_a_classic_member_under_its_id(world: MixedWorld) -> None:
    classic, consumer = mixed(world)
    same = ClassicClient(member_id="new", owned=dict(consumer.owned))
    world.join(same)
    group = world.shard.consumers.groups[GROUP]
    assert (world.kind, group.classic_count) == ("consumer", 2), "only a static one, or one that leaves, takes the group along"
    world.beat(ConsumerClient("new"))
    assert (group.classic_count, group.joins_ms, group.syncs_ms) == (1, {}, {})
    del classic


def test_a_roll_of_all_members_and_back(world: MixedWorld) -> None:
    """One member after the other goes over, and comes back; what is owned is owned once, and at the end all of it."""
    clients: list[Any] = [ClassicClient(assignors=(COOPERATIVE,)) for _ in range(3)]
    classic_group(world, *clients)
    for at in range(3):
        world.leave_classic(clients[at])
        clients[at] = ConsumerClient(f"c{at}")
        world.settle(clients)
        assert world.kind == "consumer"
        world.reload()
    for at in range(3):
        world.leave(clients[at])
        clients[at] = ClassicClient(assignors=(COOPERATIVE,))
        world.settle(clients)
        assert world.kind == ("classic" if at == 2 else "consumer")
        world.reload()
