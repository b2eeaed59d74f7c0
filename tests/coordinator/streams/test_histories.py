"""Random histories of streams groups: failed appends change no state, and a reload restores the live state.

Every append fails once before it is retried. After each step no active task has two members, and after the members have
reconciled each active task has exactly one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ottla.coordinator.group.streams.group import StreamsGroup, StreamsGroupState
from ottla.coordinator.group.streams.requests import StreamsGroupConfig, StreamsHeartbeat
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.streams_group_heartbeat import Endpoint, Subtopology, TaskOffset, TopicInfo, Topology
from tests.coordinator.group_world import FakeTopics
from tests.coordinator.streams.world import GROUP, NOTHING, Application, StreamsGroupWorld
from tests.support.levels import seeds

T = TypeVar("T")
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


class StreamsHistoryWorld(StreamsGroupWorld):
    """Members that send random heartbeats, in an application whose topics are created and get more partitions."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        super().__init__(
            topics=FakeTopics({"in": 3}),
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

    def run_retried(self, command: Callable[[], Result[T]], producer_id: int = -1) -> T:
        results: list[Result[T]] = []

        def noted() -> Result[T]:
            results.append(command())
            return results[-1]

        response = super().run_retried(noted)
        assert all(result.records == results[0].records for result in results), "the retried command returned different records"
        return response

    def check(self) -> None:
        self.check_reloaded()
        for group in self.shard.groups.values():
            check_group(group)

    def try_beat(self, app: Application, **options: Any) -> None:
        request = self.request(app, **options)
        try:
            outcome = self.run_retried(lambda: self.shard.heartbeat(StreamsHeartbeat(request, "client", "/host"), self.now_ms))
        except KafkaError:
            app.epoch, app.owned = 0, NOTHING
            if app in self.joined:
                self.joined.remove(app)
            return
        for name, topic in outcome.missing_topics.items():
            if self.rng.random() < 0.7:
                self.topics.counts[name] = topic.partition_count
        if request.member_epoch >= 0:
            app.take(outcome.answer)
            if app not in self.joined:
                self.joined.append(app)

    def join_any(self) -> None:
        app = self.rng.choice(self.apps)
        app.epoch, app.owned = 0, NOTHING
        if app in self.away and self.rng.random() < 0.7:
            app.member_id, self.names = f"m{self.names}", self.names + 1
            self.away.remove(app)
        self.try_beat(
            app,
            topology=TOPOLOGY,
            rebalance_timeout_ms=10_000,
            process_id=app.process_id,
            user_endpoint=app.endpoint,
            client_tags=[],
        )

    def go_on(self) -> None:
        if self.joined:
            self.try_beat(self.rng.choice(self.joined))

    def hang_on(self) -> None:
        """Send a member's heartbeat with task offsets. The member ignores the response's assignment."""
        if self.joined:
            app = self.rng.choice(self.joined)
            owned = app.owned
            offsets = [TaskOffset(subtopology_id="1", partition=p, offset=self.rng.randrange(100)) for p in range(2)]
            self.try_beat(app, task_offsets=offsets)
            app.owned = owned

    def leave_any(self) -> None:
        if self.joined:
            app = self.rng.choice(self.joined)
            epoch = self.rng.choice([-1, -2]) if app.instance_id is not None else -1
            self.try_beat(app, member_epoch=epoch, active_tasks=None, standby_tasks=None, warmup_tasks=None)
            app.epoch, app.owned = 0, NOTHING
            if app in self.joined:
                self.joined.remove(app)
            if epoch == -2:
                self.away.append(app)

    def pass_time(self) -> None:
        self.tick(self.rng.choice([1_000, 5_000, 20_000]))

    def grow(self) -> None:
        counts = self.topics.counts
        if counts["in"] < 6:
            counts["in"] += 1
            for name in ("app-r", "app-c"):
                if name in counts:
                    counts[name] = counts["in"]

    def step(self) -> None:
        actions = [self.join_any, *[self.go_on] * 6, self.hang_on, self.leave_any, self.pass_time]
        if self.rng.random() < 0.03:
            actions = [self.grow]
        self.rng.choice(actions)()

    def come_to_rest(self) -> None:
        self.topics.counts.setdefault("app-r", self.topics.counts["in"])
        self.topics.counts.setdefault("app-c", self.topics.counts["in"])
        for _ in range(40):
            self.tick(5_000)
            for app in list(self.joined):
                self.try_beat(app)


def check_group(group: StreamsGroup) -> None:
    """Check that no active task has two members, no process has a task twice, and the group's indexes match its members."""
    active: Counter[tuple[str, int]] = Counter()
    holders: dict[tuple[str, str, int], str] = {}
    for member in group.members.values():
        for tasks in (member.assigned, member.revoking):
            ids = {(i, p) for i, epochs in tasks.active.items() for p in epochs}
            active.update(ids)
            ids |= {(i, p) for role in (tasks.standby, tasks.warmup) for i, partitions in role.items() for p in partitions}
            for i, p in ids:
                holder = holders.setdefault((member.process_id, i, p), member.member_id)
                assert holder == member.member_id, (
                    f"process of {member.member_id} has task {i}_{p} twice; the other holder is {holder}"
                )
    assert all(count == 1 for count in active.values()), active
    assert set(group.holders.active) == set(active)
    assert group.targets.keys() <= group.members.keys()
    assert group.sessions_ms.keys() == group.members.keys()
    assert group.revocations_ms.keys() <= group.members.keys()


@pytest.mark.smoke
@pytest.mark.parametrize("seed", seeds(12, in_check=2))
def test_random_streams_group_histories_end_with_every_task_owned_once(seed: int) -> None:
    world = StreamsHistoryWorld(seed)
    for _ in range(STEPS):
        world.step()
    assert world.failed_appends > 10
    world.come_to_rest()
    group = world.shard.groups.get(GROUP)
    if group is None or not world.joined:
        return
    assert group.state is StreamsGroupState.STABLE
    assert group.members.keys() == {app.member_id for app in world.joined}
    count = world.topics.counts["in"]
    ran = Counter((i, p) for app in world.joined for i, partitions in app.owned.active.items() for p in partitions)
    assert ran == Counter((i, p) for i in ("0", "1") for p in range(count))


def test_deleted_streams_group_leaves_only_tombstones() -> None:
    """Deleting a group writes a tombstone for each of its records, so a reload does not restore the group."""
    world, app = StreamsGroupWorld(), Application("a")
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
