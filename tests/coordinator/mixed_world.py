"""A shard in which members of the classic and the consumer protocol share a group, with clients that track owned partitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ottla.coordinator.group.classic.group import ClassicGroupState
from ottla.coordinator.group.consumer.requests import ConsumerGroupConfig, ConsumerHeartbeatAnswer
from ottla.coordinator.group.consumer_protocol import read_assignment, read_subscription, written_assignment
from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.group.requests import GroupConfig, JoinAnswer, JoinRequest, MigrationPolicy, SyncAnswer, SyncRequest
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.invariants import check_groups
from ottla.protocol.codec import encode_record
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages import consumer_protocol_subscription
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from tests.coordinator.consumer_world import in_turn, logged
from tests.coordinator.group_world import GROUP, FakeTopics, GroupShardWorld, topic_id
from tests.coordinator.heartbeats import consumer_heartbeat

PARTITIONS = 6
SESSION_MS, REBALANCE_MS, CONSUMER_SESSION_MS = 10_000, 20_000, 45_000
EAGER, COOPERATIVE = "range", "cooperative-sticky"

Owned = dict[str, frozenset[int]]


def subscription(*topics: str, owned: Owned | None = None, version: int = 3, rack: str | None = None) -> bytes:
    named = [TopicPartition(topic=t, partitions=sorted(p)) for t, p in (owned or {}).items()]
    message = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=named, rack_id=rack)
    return encode_record(consumer_protocol_subscription, message, version)


@dataclass
class ClassicClient:
    """A model of a stock consumer of the classic protocol. With an eager assignor, it revokes all partitions before it joins."""

    instance_id: str | None = None
    assignors: tuple[str, ...] = (EAGER,)
    topics: tuple[str, ...] = ("t",)
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    owned: Owned = field(default_factory=dict)
    is_joining: bool = True
    is_parked: bool = False
    """Whether the client waits for a response to JoinGroup or SyncGroup."""
    joined: JoinAnswer | None = None
    synced: SyncAnswer | None = None

    @property
    def is_eager(self) -> bool:
        return EAGER in self.assignors

    def protocols(self) -> list[tuple[str, bytes]]:
        return [(name, subscription(*self.topics, owned=self.owned)) for name in self.assignors]

    def lose(self, code: Code) -> None:
        """Handle an error response: rejoin the group. The client keeps its partitions only for REBALANCE_IN_PROGRESS."""
        self.is_joining = True
        if code is not Code.REBALANCE_IN_PROGRESS:
            self.owned = {}
        if code is Code.UNKNOWN_MEMBER_ID:
            self.member_id = ""


@dataclass
class ConsumerClient:
    """A model of a stock consumer of the consumer protocol."""

    member_id: str
    instance_id: str | None = None
    epoch: int = 0
    owned: Owned = field(default_factory=dict)


AnyClient = ClassicClient | ConsumerClient


@dataclass
class MixedGroupWorld(GroupShardWorld):
    policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    options: dict[str, Any] = field(default_factory=dict)
    most_consumers: int = 0x7FFFFFFF

    def __post_init__(self) -> None:
        self.topics = FakeTopics({"t": PARTITIONS, "u": 2})
        self.config = msgspec.structs.replace(GroupConfig(migration=self.policy, consumer_of=self._consumer_config), **self.options)
        super().__post_init__()

    def _consumer_config(self, group_id: str) -> ConsumerGroupConfig:
        return ConsumerGroupConfig(
            assignors={"uniform": in_turn}, session_timeout_ms=CONSUMER_SESSION_MS, max_size=self.most_consumers
        )

    def check(self) -> None:
        check_groups(self.shard, ())

    def check_reloaded(self) -> GroupShard:
        again = super().check_reloaded()
        assert logged(again.consumers) == logged(self.shard.consumers)
        check_groups(again, ())
        return again

    def restart(self, policy: MigrationPolicy) -> None:
        self.config = msgspec.structs.replace(self.config, migration=policy)
        self.reload()

    @property
    def kind(self) -> str:
        view = self.shard.view(GROUP)
        return "none" if view is None else view.type_name

    def beat(self, client: ConsumerClient, **given: Any) -> ConsumerHeartbeatAnswer:
        if client.epoch == 0:
            client.owned = {}
            given = {"topic_names": ["t"], "rebalance_timeout_ms": REBALANCE_MS, **given}
        owned = {topic_id(t): p for t, p in client.owned.items()}
        beat = consumer_heartbeat(
            GROUP, client.member_id, client.epoch, **{"instance_id": client.instance_id, "owned": owned, **given}
        )
        answer: ConsumerHeartbeatAnswer = self.run_retried(lambda: self.shard.heartbeat(beat, self.now_ms, {}))
        client.epoch = answer.member_epoch
        if answer.assignment is not None:
            client.owned = {t.rstrip(b"\0").decode(): frozenset(epochs) for t, epochs in answer.assignment.items()}
        return answer

    def leave(self, client: ConsumerClient, epoch: int = -1) -> None:
        beat = consumer_heartbeat(GROUP, client.member_id, epoch, instance_id=client.instance_id)
        self.run_retried(lambda: self.shard.heartbeat(beat, self.now_ms, {}))
        client.epoch, client.owned = 0, {}

    def join(self, client: ClassicClient, *, needs_known_id: bool = True, **given: Any) -> JoinAnswer | None:
        """Send JoinGroup. Returns the response, or None if the request is parked. Raises `KafkaError`."""
        if client.is_eager:
            client.owned = {}
        answers: list[JoinAnswer] = []
        client.joined = None

        def take(answer: JoinAnswer) -> None:
            answers.append(answer)
            client.joined = answer
            client.member_id = answer.member_id or client.member_id
            if answer.code is Code.NONE:
                client.generation, client.protocol = answer.generation, answer.protocol

        fields: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": client.member_id,
            "instance_id": client.instance_id,
            "client_id": "client",
            "client_host": "/host",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": client.protocols(),
            "needs_known_id": needs_known_id,
            "waiter": take,
        }
        self.run_retried(lambda: self.shard.join(JoinRequest(**{**fields, **given}), self.now_ms))
        if answers and answers[0].code is Code.MEMBER_ID_REQUIRED:
            return self.join(client, **given)
        if answers and answers[0].code not in (Code.NONE, Code.MEMBER_ID_REQUIRED, Code.REBALANCE_IN_PROGRESS):
            client.joined = None
            raise KafkaError(answers[0].code)
        return answers[0] if answers else None

    def sync(self, client: ClassicClient, **given: Any) -> SyncAnswer | None:
        answers: list[SyncAnswer] = []
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "generation": client.generation,
            "member_id": client.member_id,
            "instance_id": client.instance_id,
            "protocol_type": "consumer",
            "protocol": client.protocol,
            "assignments": self._led(client),
        }
        client.synced = None

        def take(answer: SyncAnswer) -> None:
            answers.append(answer)
            client.synced = answer

        # Commands run once instead of by `run_retried`: even a refused SyncGroup changes deadlines, which are not in the log.
        self.run(self.shard.sync(SyncRequest(**{**fields, **given}, waiter=take), self.now_ms))
        return answers[0] if answers else None

    def _led(self, client: ClassicClient) -> dict[str, bytes]:
        """Return the leader's assignment: partitions round-robin, except partitions that another member still owns."""
        answer = client.joined
        if answer is None or answer.leader != client.member_id:
            return {}
        owned = {m: read_subscription(metadata).owned.get("t", frozenset()) for m, _, metadata in answer.members}
        given = {}
        for at, (member_id, _, metadata) in enumerate(answer.members):
            taken = frozenset().union(*(partitions for m, partitions in owned.items() if m != member_id))
            turn = frozenset(range(at, PARTITIONS, len(answer.members)))
            given[member_id] = written_assignment({"t": turn - taken}, metadata)
        return given

    def step(self, client: AnyClient) -> None:
        """Run one iteration of a client's loop: a heartbeat, or the next step of its current rebalance."""
        if isinstance(client, ConsumerClient):
            self._step_consumer(client)
        elif client.is_parked:
            self._go_on(client)
        elif client.is_joining:
            client.is_parked = True
            try:
                self.join(client)
            except KafkaError as error:
                client.is_parked = False
                client.lose(error.code)
            else:
                self._go_on(client)
        else:
            code = self.classic_beat(client)
            if code is Code.REBALANCE_IN_PROGRESS:
                client.is_joining = True
            elif code is not Code.NONE:
                client.lose(code)

    def _step_consumer(self, client: ConsumerClient) -> None:
        try:
            self.beat(client)
        except KafkaError as error:
            assert error.code in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH, Code.GROUP_ID_NOT_FOUND), error
            client.epoch, client.owned = 0, {}

    def _go_on(self, client: ClassicClient) -> None:
        if client.joined is not None:
            answer, client.joined = client.joined, None
            if answer.code is Code.NONE:
                self._sync_on(client, answer)
            else:
                client.is_parked = False
                client.lose(answer.code)
        elif client.synced is not None:
            answer_to_sync, client.synced = client.synced, None
            client.is_parked = False
            self.take_assignment(client, answer_to_sync)

    def _sync_on(self, client: ClassicClient, answer: JoinAnswer) -> None:
        try:
            client.joined = answer
            self.sync(client)
        except KafkaError as error:
            client.is_parked = False
            client.lose(error.code)
        client.joined = None
        if client.is_parked:
            self._go_on(client)

    def take_assignment(self, client: ClassicClient, answer: SyncAnswer) -> None:
        if answer.code is not Code.NONE:
            client.lose(answer.code)
            return
        new = {t: p for t, p in read_assignment(answer.assignment).partitions.items() if p}
        gives_up = any(not partitions <= new.get(t, frozenset()) for t, partitions in client.owned.items())
        client.owned = new
        # A cooperative member that has revoked partitions must rejoin.
        client.is_joining = gives_up

    def settle(self, clients: Iterable[AnyClient]) -> None:
        """Run all clients until nothing changes, and check that every partition has an owner."""
        clients, quiet = list(clients), 0
        for _ in range(80):
            before = (len(self.log), [(c.owned, getattr(c, "is_joining", False)) for c in clients])
            for client in clients:
                self.step(client)
                self.check_owned(clients)
            quiet = quiet + 1 if before == (len(self.log), [(c.owned, getattr(c, "is_joining", False)) for c in clients]) else 0
            if quiet == 3:
                owned = [p for client in clients for p in client.owned.get("t", ())]
                assert sorted(owned) == list(range(PARTITIONS)), f"{clients} own {owned}"
                return
            self.tick(1_000)
        raise AssertionError(f"the group did not become stable: {clients}")

    def check_owned(self, clients: Iterable[AnyClient]) -> None:
        """Check that no partition has two owners. Classic members that have to rejoin are not checked.

        In a classic group, a member may not know yet that the leader has assigned its partitions to others. If the group is
        migrated at this time, Apache Kafka also assumes that the member has received its new assignment.
        """
        settled = [c for c in clients if isinstance(c, ConsumerClient) or not c.is_joining]
        owned = [p for client in settled for p in client.owned.get("t", ())]
        assert len(owned) == len(set(owned)), f"partitions with two owners: {settled}"

    def classic_beat(self, client: ClassicClient) -> Code:
        try:
            self.shard.classic_heartbeat(GROUP, client.generation, client.member_id, client.instance_id, self.now_ms)
        except KafkaError as error:
            return error.code
        return Code.NONE

    def leave_classic(self, client: ClassicClient) -> list[Code]:
        codes: list[Code] = self.run_retried(lambda: self.shard.leave(GROUP, [(client.member_id, client.instance_id)], self.now_ms))
        client.lose(Code.UNKNOWN_MEMBER_ID)
        return codes


def classic_group(world: MixedGroupWorld, *clients: ClassicClient) -> None:
    world.settle(clients)
    assert (world.kind, world.shard.groups[GROUP].state) == ("classic", ClassicGroupState.STABLE)


def mixed(world: MixedGroupWorld, **given: Any) -> tuple[ClassicClient, ConsumerClient]:
    """Create a stable consumer group with one member of each protocol. Returns both members."""
    classic, consumer = ClassicClient(**given), ConsumerClient("new")
    classic_group(world, classic)
    world.settle([consumer, classic])
    assert (world.kind, len(world.shard.consumers.groups[GROUP].members)) == ("consumer", 2)
    return classic, consumer


def commit(world: MixedGroupWorld, epoch: int, member_id: str, *, newest: bool = False, transactional: bool = False) -> Code:
    where = ("t", 0)
    offsets = {where: CommittedOffset(5, -1, "", world.now_ms)}
    result = world.shard.commit(
        GROUP, epoch, member_id, None, offsets, world.now_ms, transactional=transactional, has_new_error_codes=newest
    )
    code: Code = world.run(result)[where]
    return code
