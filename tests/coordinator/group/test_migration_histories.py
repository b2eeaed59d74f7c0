"""Random histories of members of both protocols: invariants hold after every step, and the group finally becomes stable."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.coordinator.group.requests import MigrationPolicy
from ottla.protocol.errors import Code, KafkaError
from tests.coordinator.group_world import GROUP
from tests.coordinator.mixed_world import (
    COOPERATIVE,
    EAGER,
    SESSION_MS,
    AnyClient,
    ClassicClient,
    ConsumerClient,
    MixedGroupWorld,
)
from tests.support.levels import seeds

MAX_CLIENTS = 4
INSTANCES = ("i", "j")
GONE = (Code.UNKNOWN_MEMBER_ID, Code.GROUP_ID_NOT_FOUND, Code.FENCED_INSTANCE_ID)
"""Errors that a leaving client may receive because it had not joined yet or because its session has expired."""


class History:
    """A random history of joins, leaves and restarts.

    No client is silent for a whole session, because it would still own partitions that are reassigned to other members.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = MixedGroupWorld()
        self.assignors = self.rng.choice([(EAGER,), (COOPERATIVE,), (COOPERATIVE, EAGER)])
        self.clients: list[Any] = []
        self.kinds: set[str] = set()
        self.count = 0

    def event(self) -> None:
        event = self.rng.choices([self.step, self.come, self.go, self.restart_static, self.tick, self.reload], [30, 4, 3, 2, 3, 1])[
            0
        ]
        event()
        self.kinds.add(self.world.kind)
        self.world.check_owned(self.clients)

    def step(self) -> None:
        for client in self.rng.sample(self.clients, len(self.clients)):
            self.world.step(client)
            self.world.check_owned(self.clients)

    def made(self, instance_id: str | None) -> AnyClient:
        self.count += 1
        if self.rng.random() < 0.5:
            return ClassicClient(instance_id=instance_id, assignors=self.assignors)
        return ConsumerClient(f"consumer-{self.count}", instance_id)

    def come(self) -> None:
        taken = {c.instance_id for c in self.clients}
        if len(self.clients) < MAX_CLIENTS:
            free = [i for i in INSTANCES if i not in taken and self.world.shard.view(GROUP) is None]
            self.clients.append(self.made(self.rng.choice([None, *free])))

    def go(self) -> None:
        if not self.clients:
            return
        client = self.clients.pop(self.rng.randrange(len(self.clients)))
        try:
            if isinstance(client, ConsumerClient):
                self.world.leave(client)
            else:
                self.world.leave_classic(client)
        except KafkaError as error:
            assert error.code in GONE, error

    def restart_static(self) -> None:
        """Stop a static client and start a successor with its instance id, which may use the other protocol.

        A client of the consumer protocol sends a final heartbeat with epoch -2.
        """
        static = [at for at, c in enumerate(self.clients) if c.instance_id is not None and not getattr(c, "is_parked", False)]
        if not static:
            return
        at = self.rng.choice(static)
        client = self.clients[at]
        if isinstance(client, ConsumerClient) and client.epoch > 0:
            try:
                self.world.leave(client, -2)
            except KafkaError as error:
                assert error.code in GONE, error
        self.clients[at] = self.made(client.instance_id)

    def tick(self) -> None:
        self.step()
        self.world.tick(self.rng.choice([100, 1_000, SESSION_MS // 2]))

    def reload(self) -> None:
        """Reload the shard. Parked members get NOT_COORDINATOR and retry."""
        for effect in self.world.shard.membership.dismissals():
            effect.waiter(effect.answer)  # type: ignore[attr-defined]
        self.world.reload()


@pytest.mark.parametrize("seed", seeds(20, in_check=5))
def test_random_group_migrations_keep_the_invariants(seed: int) -> None:
    history = History(seed)
    for _ in range(120):
        history.event()
    world = history.world
    # Let the sessions of members that left silently or were replaced expire.
    for _ in range(60):
        history.step()
        world.tick(1_000)
    if history.clients:
        world.settle(history.clients)
    world.reload()


@pytest.mark.smoke
def test_random_group_histories_migrate_in_both_directions() -> None:
    assert MigrationPolicy.BIDIRECTIONAL.upgrades
    changes = set()
    for seed in range(10):
        history, before = History(seed), "none"
        for _ in range(120):
            history.event()
            changes.add((before, history.world.kind))
            before = history.world.kind
    assert {("classic", "consumer"), ("consumer", "classic")} <= changes
