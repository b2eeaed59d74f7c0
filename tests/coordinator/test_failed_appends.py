# ruff: noqa: B023
"""In random histories every append fails once. The failure changes no state, a retry succeeds, and a reload restores the state."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from ottla.coordinator.group.classic.group import ClassicGroupState
from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.group.requests import GroupConfig, JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from ottla.coordinator.metadata.cluster import TOPIC_RESOURCE
from ottla.coordinator.result import Result
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.coordinator.transaction.states import PREPARED
from ottla.protocol.errors import Code, KafkaError
from tests.coordinator.controller.world import ControllerWorld
from tests.coordinator.group_world import GroupShardWorld
from tests.coordinator.transaction_world import ID, TransactionWorld
from tests.support.levels import seeds

STEPS = 400
GROUPS = ("g", "h", "i")
WEEK_MS = GroupConfig().offsets_retention_ms


class RandomGroupsWorld(GroupShardWorld):
    """A shard of classic groups with clients that send random requests."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.most_waiting = 0
        self.members: dict[str, list[tuple[str, str | None, int]]] = {g: [] for g in GROUPS}

    def try_command(self, command: Callable[[], Result[Any]], producer_id: int = -1) -> None:
        with suppress(KafkaError):
            self.run_retried(command, producer_id)

    def check(self) -> None:
        self.check_reloaded()

    def step(self) -> None:
        actions = [
            self.join,
            self.join,
            self.sync,
            self.sync,
            *[self.rebalance] * 3,
            self.leave,
            self.beat,
            self.commit,
            self.pass_time,
        ]
        rare = [self.delete_group, self.delete_offsets, self.expire, self.end_transaction, self.forget]
        self.rng.choice(actions if self.rng.random() < 0.85 else rare)()

    def some(self) -> tuple[str, str, str | None, int]:
        group_id = self.rng.choice(GROUPS)
        known = self.members[group_id]
        if not known:
            return group_id, "", None, -1
        return group_id, *self.rng.choice(known[-4:])

    def join(self) -> None:
        group_id, member_id, instance_id, _ = self.some()
        if self.rng.random() < 0.4:
            member_id, instance_id = "", self.rng.choice([None, None, "s1", "s2"])
        self._join(group_id, member_id, instance_id)

    def rebalance(self) -> None:
        """Let every member rejoin and sync. The leader syncs last, so other members are parked when its append fails."""
        group = self.shard.groups.get(self.rng.choice(GROUPS))
        if group is None or not group.members:
            return
        for member in list(group.members.values()):
            self._join(group.group_id, member.member_id, member.instance_id)
        group = self.shard.groups[group.group_id]
        if group.state is not ClassicGroupState.COMPLETING_REBALANCE:
            return
        given = {m: b"a%d" % self.rng.randrange(100) for m in group.members}
        answers: dict[str, list[SyncAnswer]] = {m: [] for m in group.members}
        for member_id in sorted(answers, key=lambda m: m == group.leader):
            take = answers[member_id].append
            request = SyncRequest(group.group_id, group.generation, member_id, None, None, None, given, take)
            self.try_command(lambda: self.shard.sync(request, self.now_ms))
        self.most_waiting = max(self.most_waiting, len(answers) - 1)
        assert {m: [(a.code, a.assignment) for a in member_answers] for m, member_answers in answers.items()} == {
            m: [(Code.NONE, assigned)] for m, assigned in given.items()
        }

    def _join(self, group_id: str, member_id: str, instance_id: str | None) -> None:
        def joined(answer: JoinAnswer) -> None:
            if answer.member_id:
                self.members[group_id].append((answer.member_id, instance_id, answer.generation))

        request = JoinRequest(
            group_id=group_id,
            member_id=member_id,
            instance_id=instance_id,
            client_id="c",
            client_host="/h",
            session_timeout_ms=self.rng.choice([5_000, 10_000]),
            rebalance_timeout_ms=self.rng.choice([5_000, 20_000]),
            protocol_type="consumer",
            protocols=[("range", b"%d" % self.rng.randrange(2))],
            needs_known_id=self.rng.random() < 0.5,
            waiter=joined,
        )
        self.try_command(lambda: self.shard.join(request, self.now_ms))

    def sync(self) -> None:
        group_id, member_id, instance_id, generation = self.some()
        members = self.shard.groups[group_id].members if group_id in self.shard.groups else {}
        given = {m: b"a%d" % self.rng.randrange(100) for m in members}
        answers: list[SyncAnswer] = []
        request = SyncRequest(group_id, generation, member_id, instance_id, None, None, given, answers.append)
        self.try_command(lambda: self.shard.sync(request, self.now_ms))
        assert len(answers) <= 1, "a refused command answers at most the sender of the request"

    def leave(self) -> None:
        if self.rng.random() < 0.5:
            group_id, member_id, instance_id, _ = self.some()
            leaving = [(member_id, instance_id)]
        else:
            group_id = self.rng.choice(GROUPS)
            leaving = [(m, None) for m in (self.shard.groups[group_id].members if group_id in self.shard.groups else ())]
        self.try_command(lambda: self.shard.membership.leave(group_id, leaving, self.now_ms))

    def beat(self) -> None:
        group_id, member_id, instance_id, generation = self.some()
        try:
            self.shard.membership.heartbeat(group_id, generation, member_id, instance_id, self.now_ms)
        except KafkaError:
            return

    def commit(self) -> None:
        group_id, member_id, instance_id, generation = self.some()
        if self.rng.random() < 0.3:
            member_id, instance_id, generation = "", None, -1
        producer_id = self.rng.choice([-1, 1, 2])
        offsets = {(self.rng.choice("tu"), self.rng.randrange(2)): CommittedOffset(self.rng.randrange(99), -1, "", self.now_ms)}
        self.try_command(
            lambda: self.shard.commit(
                group_id, generation, member_id, instance_id, offsets, self.now_ms, transactional=producer_id >= 0
            ),
            producer_id,
        )

    def end_transaction(self) -> None:
        self.mark(self.rng.choice([1, 2]), commit=self.rng.random() < 0.5)

    def delete_group(self) -> None:
        group_id = self.rng.choice(GROUPS)
        self.try_command(lambda: self.shard.delete_group(group_id, 100))

    def delete_offsets(self) -> None:
        group_id = self.rng.choice(GROUPS)
        self.try_command(lambda: self.shard.delete_offsets(group_id, [("t", 0), ("u", 1)]))

    def expire(self) -> None:
        self.now_ms += WEEK_MS // 2
        for result in self.shard.expire_offsets(self.now_ms, 1, 1 << 19):
            self.run(result)

    def forget(self) -> None:
        for result in self.shard.forget_topic("u", len(self.log) + 1, 1, 1 << 19):
            self.run(result)
        assert not self.shard.offsets.keys_of_topic("u")

    def pass_time(self) -> None:
        self.now_ms += self.rng.choice([10, 1_000, 6_000, 25_000])
        refused: set[str] = set()
        for group_id, result in self.shard.membership.tick(self.now_ms):
            if result.records:
                # The test lets the append of every result with records fail.
                self.failed_appends += 1
                refused.add(group_id)
            else:
                self.run(result)
        self.now_ms += 1_000
        for group_id, result in self.shard.membership.tick(self.now_ms):
            self.run(result)
            refused.discard(group_id)
        assert not refused, "deadlines whose append failed are due again"


@pytest.mark.parametrize("seed", seeds(6, in_check=2))
def test_failed_appends_of_group_coordinator_commands_change_nothing(seed: int) -> None:
    world = RandomGroupsWorld(seed)
    for _ in range(STEPS):
        world.step()
    assert world.failed_appends > 30
    assert world.most_waiting > 0


@pytest.mark.smoke
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", seeds(3, in_check=1))
def test_failed_appends_of_transaction_coordinator_commands_change_nothing(seed: int, version: int) -> None:
    rng, world = random.Random(seed), TransactionWorld(version=version)
    shard, new_id = world.shard, world.new_producer_id
    known: dict[str, ProducerIdAndEpoch] = {}
    for _ in range(STEPS):
        world.now_ms += 10
        name = rng.choice("xyz")
        identity = known.get(name, ProducerIdAndEpoch(0, 0))
        expected = rng.choice([None, identity])
        commit, client = rng.random() < 0.5, rng.choice([0, version])
        commands: list[Callable[[], Result[Any]]] = [
            lambda: shard.init_producer_id(name, 60_000, expected, world.now_ms, new_id),
            lambda: shard.add_partitions(name, identity, [("t", rng.randrange(3))], world.now_ms, client),
            lambda: shard.end_txn(
                name,
                identity,
                commit=commit,
                client_transaction_version=client,
                now_ms=world.now_ms,
                new_producer_id=new_id,
            ),
            lambda: shard.abort_timed_out(name, world.now_ms, new_id),
            lambda: shard.complete(name, world.now_ms),
        ]
        at = shard.ids.get(name)
        decided = at is not None and at.state in PREPARED
        with suppress(KafkaError):
            world.run_retried(commands[4] if decided and rng.random() < 0.7 else commands[rng.randrange(3)])
        current = shard.ids.get(name)
        if current is not None:
            known[name] = ProducerIdAndEpoch(current.producer_id, current.producer_epoch)
    assert world.failed_appends > 50


@pytest.mark.entry("INI-18")
def test_fenced_producer_stays_fenced_after_a_failed_append() -> None:
    """After a failed append, the next InitProducerId still fences the producer with the previous epoch."""
    world = TransactionWorld()
    first = world.init()
    # The record of this result is not appended. It would have stored the previous epoch, with which a producer may retry.
    world.shard.init_producer_id(ID, 60_000, first, world.now_ms, world.new_producer_id)
    second = world.init()
    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1)
    with pytest.raises(KafkaError, match=Code.PRODUCER_FENCED.name):
        world.init(first)


def test_failed_appends_of_metadata_commands_change_nothing() -> None:
    rng, world = random.Random(1), ControllerWorld()
    state = world.state
    for at in range(300):
        name = rng.choice("abcd")
        partitions, retention_ms, version = rng.randrange(9), rng.choice([None, "5"]), rng.randrange(3)
        commands: list[Callable[[], Result[Any]]] = [
            lambda: state.create_topic(name, bytes([at % 256]) * 16, 3, {"retention.ms": "1"}),
            lambda: state.create_partitions(name, partitions),
            lambda: state.delete_topic(name),
            lambda: state.set_configs(TOPIC_RESOURCE, name, {"retention.ms": retention_ms}),
            lambda: state.set_features({"transaction.version": version, "group.version": 0}),
            state.allocate_producer_ids,
        ]
        with suppress(KafkaError):
            world.run_retried(rng.choice(commands))
        world.check_reloaded()
