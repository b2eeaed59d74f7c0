"""A seed always produces the same simulated world, whatever Python's hash seed is."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from ottla.simulation.env import SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.simulation.scheduler import Scheduler
from ottla.simulation.torn_disk import SECTOR_BYTES, TornDisk
from ottla.simulation.tracing_filesystem import TracingFilesystem

STORY = """
import hashlib, random, sys
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.torn_disk import TornDisk
from ottla.simulation.tracing_filesystem import TracingFilesystem
from tests.scenarios.play import perform
from tests.scenarios.world import World

fs, disk = TracingFilesystem(), TornDisk()
broker = SimulatedBroker(fs=fs, seed=int(sys.argv[1])).start()
world = World(broker, "ottla", "")
for command in ("topic t partitions=3", "A = init a", "produce A t", "produce A t/1", "commit A", "delete t", "wait 100000"):
    perform(world, command)
world.close()
broker.close()
digest = hashlib.sha256()
for op in fs.trace:
    disk.apply(op)
    digest.update(repr(op).encode())
    for name, image in disk.states(random.Random(len(op.path))):
        digest.update(repr((name, image)).encode())
print("digest", len(fs.trace), digest.hexdigest())
"""


def digest(seed: int, hash_seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, "-c", STORY, str(seed)], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    return next(line for line in done.stdout.splitlines() if line.startswith("digest"))


@pytest.mark.full
def test_crash_states_of_a_seed_do_not_depend_on_pythonhashseed() -> None:
    assert digest(1, 1) == digest(1, 2)
    assert digest(1, 1) != digest(2, 1)


def test_simulated_calls_due_at_the_same_time_run_in_scheduling_order() -> None:
    scheduler, called = Scheduler(1_000), list[str]()
    scheduler.call_later(5, lambda: called.append(f"first at {scheduler.now_ms}"))
    scheduler.call_later(5, lambda: called.append("second"))
    scheduler.call_later(5, lambda: called.append("never")).cancel()
    scheduler.call_later(3, lambda: scheduler.call_soon(lambda: called.append(f"earlier at {scheduler.now_ms}")))
    scheduler.advance(4)
    assert called == ["earlier at 1003"]
    scheduler.advance(4)
    assert called == ["earlier at 1003", "first at 1005", "second"]
    assert scheduler.now_ms == 1_008


def test_simulated_environment_calls_an_overridden_settle_method_while_time_advances() -> None:
    """Tests that measure how long the broker blocks the event loop override ``settle``."""

    class Counting(SimulatedEnv):
        settled = 0

        def settle(self) -> None:
            self.settled += 1
            super().settle()

    env = Counting(MemoryFilesystem(), random.Random(1), 0)
    env.call_later(3, lambda: None)
    env.call_later(4, lambda: None)
    env.advance(10)
    assert env.settled == 2


def test_iteration_of_the_simulated_event_loop_runs_no_calls_scheduled_during_it() -> None:
    scheduler, called = Scheduler(0), list[int]()

    def again() -> None:
        called.append(len(called))
        if len(called) < 3:
            scheduler.call_soon(again)

    scheduler.call_soon(again)
    scheduler.turn()
    assert called == [0]
    scheduler.settle()
    assert called == [0, 1, 2]


def test_simulated_crash_keeps_synced_bytes_and_a_part_of_unsynced_bytes() -> None:
    fs, disk, rng = TracingFilesystem(), TornDisk(), random.Random(1)
    file = fs.open("/d/log")
    synced, unsynced = b"s" * 700, b"u" * 2_000
    file.append(synced)
    file.sync()
    file.append(unsynced)
    for op in fs.trace:
        disk.apply(op)
    torn = set[int]()
    for _ in range(50):
        states = {name: image["/d/log"] for name, image in disk.states(rng)}
        assert states["kept"] == synced + unsynced
        assert states["unsynced dropped"] == synced
        assert states["zero tail"] == synced + bytes(len(unsynced))
        assert states["torn"].startswith(synced)
        assert (synced + unsynced).startswith(states["torn"])
        torn.add(len(states["torn"]))
    assert torn > {len(synced)}
    assert all(size % SECTOR_BYTES == 0 for size in torn - {len(synced)})


def test_simulated_power_cut_may_undo_an_unsynced_rename_and_disk_lists_sorted_names() -> None:
    fs = TracingFilesystem()
    disk = TornDisk()
    fs.write_file("/d/new", b"new")
    fs.write_file("/d/old", b"old")
    fs.rename("/d/new", "/d/old")
    for op in fs.trace:
        disk.apply(op)
    states = dict(disk.states(random.Random(1)))
    assert states["kept"] == {"/d/old": b"new"}
    assert states["rename or unlink undone"] == {"/d/new": b"new", "/d/old": b"old"}
    names = MemoryFilesystem({f"/d/{name}": b"" for name in "cab"}).list_dir("/d")
    assert names == ["a", "b", "c"]
