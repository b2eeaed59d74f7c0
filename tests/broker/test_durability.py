"""Group commit: one round of syncs for all that wait, in the right order, and no success after a failure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage.memory_filesystem import MemoryFilesystem
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tests.simulated import SimulatedBroker


class Slow(MemoryFilesystem):
    """Remembers what was synced, and may refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.fails = False

    def sync_file(self, path: str) -> None:
        if self.fails:
            raise OSError(5, "Input/output error")
        self.synced.append(path)


@pytest.fixture
def fs() -> Slow:
    return Slow()


@pytest.fixture
def world(fs: Slow) -> Iterator[World]:
    broker = SimulatedBroker({"ottla.durability": "power"}, fs=fs).start()
    found = World(broker, "ottla", "")
    yield found
    found.close()
    broker.abandon()


def rounds(world: World) -> int:
    commit = world.broker.broker.commit  # type: ignore[attr-defined]
    return int(commit.rounds)


def test_an_answer_waits_for_the_disk(world: World, fs: Slow) -> None:
    for command in ("topic t", "A = init", "produce A t"):
        perform(world, command)
    assert fs.synced[-1] == "/data/t-0/00000000000000000000.log"
    before = rounds(world)
    perform(world, "read t")
    assert rounds(world) == before, "reading waits for nothing"


def test_data_before_decisions_before_markers_before_outcomes(world: World, fs: Slow) -> None:
    for command in ("topic t", "A = init x", "produce A t", "offsets A g t=1"):
        perform(world, command)
    fs.synced.clear()
    before = rounds(world)
    assert perform(world, "commit A nosettle") == "NONE p1 e1"
    assert rounds(world) - before == 2
    decision = next(i for i, path in enumerate(fs.synced) if "__transaction_state" in path)
    marker = next(i for i, path in enumerate(fs.synced) if path.startswith("/data/t-0"))
    assert decision < marker
    assert perform(world, "describe x").startswith("CompleteCommit")
    assert perform(world, "produce A t") == "NONE @2", "the next transaction does not wait"


def test_one_round_serves_all_that_wait(world: World) -> None:
    perform(world, "topic t")
    for name in "ABCDE":
        perform(world, f"{name} = init")
    clients = [world.connect() for _ in range(5)]
    from tests.scenarios.play import cut_up
    from tests.scenarios.verbs import VERBS

    before = rounds(world)
    sent = []
    env = world.broker.env  # type: ignore[attr-defined]
    settle, env.settle = env.settle, lambda: None
    for client, name in zip(clients, "ABCDE", strict=True):
        ask = VERBS["produce"](world, cut_up(f"produce {name} t", {}))
        sent.append((client, ask, client.send(ask.request, ask.version)))  # type: ignore[union-attr, arg-type]
    env.settle = settle
    env.settle()
    assert [ask.show(client.receive(what)) for client, ask, what in sent] == [f"NONE @{n}" for n in range(5)]  # type: ignore[union-attr]
    assert rounds(world) - before == 1


def test_after_a_failed_sync_nothing_is_promised_any_more(world: World, fs: Slow) -> None:
    for command in ("topic t", "A = init", "produce A t"):
        perform(world, command)
    fs.fails = True
    assert perform(world, "produce A t") == "closed"
    fs.fails = False
    assert perform(world, "produce A t seq=1") == "KAFKA_STORAGE_ERROR", "not even as a duplicate"
    assert perform(world, "produce A t seq=2") == "KAFKA_STORAGE_ERROR"
    assert perform(world, "topic u") != ""
