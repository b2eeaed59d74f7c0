"""Random histories of streams groups: every append fails once and has changed nothing, and a reload gives the live state.

After each step no task is run twice, and once the members have come to rest each task is run by one of them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla.coordinator.group.streams.group import StreamsGroup, StreamsGroupState
from ottla.coordinator.group.streams.requests import StreamsGroupConfig, StreamsHeartbeat
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.streams_group_heartbeat import Endpoint, Subtopology, TaskOffset, TopicInfo, Topology
from tests.coordinator.streams.world import BATCH_BYTES, GROUP, NOTHING, Application, FixedTopics, World, logged
from tests.support.levels import seeds

STEPS = 150
TOPOLOGY = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(subtopology_id="0", source_topics=["in"], repartition_sink_topics=["app-r"]),
        Subtopology(
            subtopology_id="1",
            repartition_source_topics=[TopicInfo(name="app-r")],
            state_changelog_topics=[TopicInfo(name="app-c")],
        ),
    ],
)
NOT_LOGGED = ("task_offsets", "shutdown_member_id", "endpoint_epoch", "sessions_ms", "revocations_ms", "delayed_until_ms")


class History:
    """Members that do what comes into their minds, in an application whose topics come and grow."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World(
            topics=FixedTopics({"in": 3}),
            config=StreamsGroupConfig(
                standby_replica_count=self.rng.choice([0, 1, 2]),
                assignment_interval_ms=self.rng.choice([0, 0, 5_000]),
                initial_rebalance_delay_ms=self.rng.choice([0, 0, 3_000]),
            ),
        )
        self.apps = [
            Application(
                member_id=f"m{i}",
                process_id=f"p{self.rng.randrange(3)}",
                instance_id=f"i{i}" if self.rng.random() < 0.3 else None,
                topology=TOPOLOGY,
                endpoint=Endpoint(host=f"h{i}", port=i) if self.rng.random() < 0.3 else None,
            )
            for i in range(5)
        ]
        self.joined: list[Application] = []
        self.away: list[Application] = []
        self.names = 5
        self.failed_appends = 0

    # carrying out

    def state(self) -> Any:
        shard = self.world.shard
        kept = {g: [_copied(getattr(group, name)) for name in NOT_LOGGED] for g, group in shard.groups.items()}
        return logged(shard), kept

    def run(self, command: Callable[[], Result[Any]]) -> Any:
        """The log refuses the first attempt; what carries out the second one is compared with a reload."""
        before = self.state()
        try:
            result = command()
        except KafkaError:
            assert self.state() == before, "a refusal has changed something"
            raise
        if result.records:
            assert self.state() == before, "what is not in the log has happened"
            self.failed_appends += 1
            again = command()
            assert again.records == result.records, "the second attempt decides otherwise"
            result = again
        response = self.world.run(result)
        self.check()
        return response

    def check(self) -> None:
        shard = self.world.shard
        assert logged(shard) == logged(self.world.reloaded())
        for group in shard.groups.values():
            check_group(group)

    # what members do

    def beat(self, app: Application, **options: Any) -> None:
        request = self.world.request(app, **options)
        try:
            outcome = self.run(lambda: self.world.shard.heartbeat(StreamsHeartbeat(request, "client", "/host"), self.world.now_ms))
        except KafkaError:
            app.epoch, app.owned = 0, NOTHING
            if app in self.joined:
                self.joined.remove(app)
            return
        for name, topic in outcome.missing_topics.items():
            if self.rng.random() < 0.7:
                self.world.topics.counts[name] = topic.partition_count
        if request.member_epoch >= 0:
            app.take(outcome.answer)
            if app not in self.joined:
                self.joined.append(app)

    def join(self) -> None:
        app = self.rng.choice(self.apps)
        app.epoch, app.owned = 0, NOTHING
        if app in self.away and self.rng.random() < 0.7:
            app.member_id, self.names = f"m{self.names}", self.names + 1
            self.away.remove(app)
        self.beat(
            app,
            topology=TOPOLOGY,
            rebalance_timeout_ms=10_000,
            process_id=app.process_id,
            user_endpoint=app.endpoint,
            client_tags=[],
        )

    def go_on(self) -> None:
        if self.joined:
            self.beat(self.rng.choice(self.joined))

    def hang_on(self) -> None:
        """A member keeps to what it is to give up, and tells of it."""
        if self.joined:
            app = self.rng.choice(self.joined)
            owned = app.owned
            offsets = [TaskOffset(subtopology_id="1", partition=p, offset=self.rng.randrange(100)) for p in range(2)]
            self.beat(app, task_offsets=offsets)
            app.owned = owned

    def leave(self) -> None:
        if self.joined:
            app = self.rng.choice(self.joined)
            epoch = self.rng.choice([-1, -2]) if app.instance_id is not None else -1
            self.beat(app, member_epoch=epoch, active_tasks=None, standby_tasks=None, warmup_tasks=None)
            app.epoch, app.owned = 0, NOTHING
            if app in self.joined:
                self.joined.remove(app)
            if epoch == -2:
                self.away.append(app)

    def pass_time(self) -> None:
        self.world.now_ms += self.rng.choice([1_000, 5_000, 20_000])
        for _, result in self.world.shard.tick(self.world.now_ms, BATCH_BYTES):
            before = len(self.world.log)
            self.world.run(result)
            assert len(self.world.log) - before == len(result.records)
            self.check()

    def grow(self) -> None:
        counts = self.world.topics.counts
        if counts["in"] < 6:
            counts["in"] += 1
            for name in ("app-r", "app-c"):
                if name in counts:
                    counts[name] = counts["in"]

    def step(self) -> None:
        actions = [self.join, *[self.go_on] * 6, self.hang_on, self.leave, self.pass_time]
        if self.rng.random() < 0.03:
            actions = [self.grow]
        self.rng.choice(actions)()

    def come_to_rest(self) -> None:
        self.world.topics.counts.setdefault("app-r", self.world.topics.counts["in"])
        self.world.topics.counts.setdefault("app-c", self.world.topics.counts["in"])
        for _ in range(40):
            self.world.now_ms += 5_000
            for _, result in self.world.shard.tick(self.world.now_ms, BATCH_BYTES):
                self.world.run(result)
            for app in list(self.joined):
                self.beat(app)


def check_group(group: StreamsGroup) -> None:
    """No active task at two members, no task at two members of one process, and holders as the members say."""
    active: Counter[tuple[str, int]] = Counter()
    holders: dict[tuple[str, str, int], str] = {}
    for member in group.members.values():
        for tasks in (member.assigned, member.revoking):
            ids = {(i, p) for i, epochs in tasks.active.items() for p in epochs}
            active.update(ids)
            ids |= {(i, p) for role in (tasks.standby, tasks.warmup) for i, partitions in role.items() for p in partitions}
            for i, p in ids:
                holder = holders.setdefault((member.process_id, i, p), member.member_id)
                assert holder == member.member_id, f"{i}_{p} is with {holder} and {member.member_id} on one process"
    assert all(count == 1 for count in active.values()), active
    assert set(group.holders.active) == set(active)
    assert group.targets.keys() <= group.members.keys()
    assert group.sessions_ms.keys() == group.members.keys()
    assert group.revocations_ms.keys() <= group.members.keys()


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


@pytest.mark.parametrize("seed", seeds(12, in_check=2))
def test_histories(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.step()
    assert history.failed_appends > 10
    history.come_to_rest()
    group = history.world.shard.groups.get(GROUP)
    if group is None or not history.joined:
        return
    assert group.state is StreamsGroupState.STABLE
    assert group.members.keys() == {app.member_id for app in history.joined}
    count = history.world.topics.counts["in"]
    ran = Counter((i, p) for app in history.joined for i, partitions in app.owned.active.items() for p in partitions)
    assert ran == Counter((i, p) for i in ("0", "1") for p in range(count))


def test_a_group_is_deleted() -> None:
    """By tombstones of everything that the log has of it; what was logged before brings nothing back."""
    world, app = World(), Application("a")
    world.join(app)
    assert not world.group.is_empty
    world.leave(app)
    assert world.group.is_empty
    tombstones = world.group.tombstones()
    world.run(Result(None, records=tombstones))
    assert not world.shard.groups
    assert not world.reloaded().groups
    newest: dict[bytes | None, LogRecord] = {record.key: record for record in world.log}
    assert all(record.value is None for record in newest.values())
    world.join(app)
    assert app.active == {0, 1, 2, 3}
