"""The gate: what stands behind a write leaves at once, or when the disk has it, and never where it is lost."""

from __future__ import annotations

import random

import pytest

from ottla.broker.durability import GroupCommit
from ottla.broker.gate import Gate
from ottla.broker.stepping import Stepping
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.log import Log


class World:
    """A gate over one small file, and what has left through it."""

    def __init__(self) -> None:
        self.env = SimulatedEnv(MemoryFilesystem(), random.Random(1), START_MS)
        self.failures: list[BaseException] = []
        commit = GroupCommit(self.env, Stepping(self.env, pytest.fail), self.failures.append, lambda path, error: None)
        self.gate = Gate(commit)
        self.log = Log(self.env.fs, "/t-0", "t", 0, LogConfig())
        self.left: list[object] = []
        self.env.fs.make_dir("/d")

    def write(self) -> None:
        self.env.fs.write_file("/d/checkpoint", b"1")
        self.gate.wrote_file("/d/checkpoint", "/d")


def test_with_durability_process_all_leaves_at_once() -> None:
    gate, left = Gate(None), list[object]()
    gate.wrote_file("/d/checkpoint", "/d")
    gate.answer(left.append)
    gate.effect(lambda: left.append("effect"))
    assert left == [True, "effect"]
    assert gate.is_always_open
    assert not gate.is_shut
    assert gate.on_written is None


def test_with_durability_power_it_leaves_when_the_disk_has_it() -> None:
    world = World()
    world.gate.answer(world.left.append)
    assert world.left == [True], "nothing was written"
    world.write()
    assert world.gate.is_shut
    world.gate.answer(world.left.append)
    world.gate.effect_behind(world.log, 0, lambda: world.left.append("effect"))
    assert world.left == [True]
    world.env.settle()
    assert world.left == [True, True, "effect"]
    assert not world.gate.is_shut


def test_where_the_disk_fails_answers_are_told_and_effects_never_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.write()

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("ottla.broker.durability.sync_file", fail)
    world.gate.answer(world.left.append)
    world.gate.effect(lambda: world.left.append("effect"))
    world.env.settle()
    assert world.left == [False]
    assert len(world.failures) == 1
    world.gate.effect(lambda: world.left.append("effect"))
    assert world.left == [False]


def test_nothing_stands_behind_what_is_not_committed() -> None:
    world = World()
    with pytest.raises(AssertionError, match="high watermark"):
        world.gate.effect_behind(world.log, 1, world.env.settle)


def test_a_stopped_gate_lets_nothing_leave() -> None:
    world = World()
    world.write()
    world.gate.answer(world.left.append)
    world.gate.stop()
    world.env.settle()
    world.gate.effect(lambda: world.left.append("effect"))
    assert world.left == []
