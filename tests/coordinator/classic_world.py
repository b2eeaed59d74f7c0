"""Classic groups without a broker, and clients that keep the state of a group member."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ottla.coordinator.group.classic.group import ClassicGroupState
from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.group.requests import JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from ottla.protocol.errors import Code
from tests.coordinator.group_world import GROUP, GroupShardWorld

T0 = ("t", 0)


@dataclass
class Client:
    """The client-side state of a classic group member."""

    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    protocols: list[tuple[str, bytes]] = field(default_factory=lambda: [("range", b"sub")])
    last: JoinAnswer | None = None

    def joined(self, answer: JoinAnswer) -> None:
        self.last = answer
        self.member_id = answer.member_id or self.member_id
        self.generation = answer.generation


class ClassicGroupWorld(GroupShardWorld):
    def join(self, member: Client, **options: Any) -> list[JoinAnswer]:
        answers: list[JoinAnswer] = []

        def take(answer: JoinAnswer) -> None:
            answers.append(answer)
            member.joined(answer)

        request = JoinRequest(
            GROUP,
            member.member_id,
            member.instance_id,
            "client",
            "/host",
            options.get("session_ms", 10_000),
            options.get("rebalance_ms", 20_000),
            "consumer",
            member.protocols,
            options.get("needs_known_id", False),
            take,
            options.get("skip", False),
        )
        self.run(self.shard.join(request, self.now_ms))
        return answers

    def sync(self, member: Client, assignments: dict[str, bytes] | None = None) -> list[SyncAnswer]:
        answers: list[SyncAnswer] = []
        request = SyncRequest(
            GROUP, member.generation, member.member_id, member.instance_id, None, None, assignments or {}, answers.append
        )
        self.run(self.shard.sync(request, self.now_ms))
        return answers

    def beat(self, member: Client) -> None:
        self.shard.classic_heartbeat(GROUP, member.generation, member.member_id, member.instance_id, self.now_ms)

    def commit(
        self, offset: int, *, generation: int = -1, member: str = "", producer_id: int = -1, partition: tuple[str, int] = T0
    ) -> Code:
        result = self.shard.commit(
            GROUP,
            generation,
            member,
            None,
            {partition: CommittedOffset(offset, -1, "", self.now_ms)},
            self.now_ms,
            transactional=producer_id >= 0,
        )
        return self.run(result, producer_id)[partition]

    def fetched(self, *, stable: bool = False) -> int | None:
        committed = self.shard.fetch(GROUP, require_stable=stable).get(*T0)
        return None if committed is None else committed.offset

    @property
    def state(self) -> ClassicGroupState:
        return self.shard.groups[GROUP].state


def stable(world: ClassicGroupWorld, count: int = 2, **options: Any) -> list[Client]:
    """Create a stable group of ``count`` members and return them. The first member is the leader."""
    members = [Client() for _ in range(count)]
    world.join(members[0], **options)
    for member in members[1:]:
        world.join(member, **options)
        for earlier in members:
            if earlier is member:
                break
            world.join(earlier, **options)
    for member in members[1:]:
        world.sync(member)
    world.sync(members[0], {m.member_id: b"a%d" % i for i, m in enumerate(members)})
    assert world.state is ClassicGroupState.STABLE
    return members
