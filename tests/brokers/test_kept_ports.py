"""Ports that are not configured are chosen once per data directory and reused by later starts."""

from __future__ import annotations

from itertools import count

import pytest

from ottla.brokers.kept_ports import PORTS_FILE, KeptPorts
from ottla.simulation.memory_filesystem import MemoryFilesystem

DATA = "/cluster"
HOST = "127.0.0.1"
NAMES = ("controller", "broker-1", "broker-2")


def kept(fs: MemoryFilesystem, *free_ports: int, busy: tuple[int, ...] = ()) -> KeptPorts:
    ports = iter(free_ports or count(50_000))
    return KeptPorts(fs, DATA, free_port=lambda host: next(ports), is_free=lambda host, port: port not in busy)


def chosen(ports: KeptPorts) -> list[int]:
    return [ports.port(name, HOST) for name in NAMES]


@pytest.fixture
def fs() -> MemoryFilesystem:
    fs = MemoryFilesystem()
    fs.make_dir(DATA)
    return fs


def test_each_chosen_port_is_used_by_one_node_of_the_cluster(fs: MemoryFilesystem) -> None:
    assert chosen(kept(fs, 40_000, 40_000, 40_001, 40_000, 40_001, 40_002)) == [40_000, 40_001, 40_002]


def test_cluster_uses_the_same_ports_at_its_next_start(fs: MemoryFilesystem) -> None:
    first = kept(fs, 40_000, 40_001, 40_002)
    ports = chosen(first)
    first.save()
    assert chosen(kept(fs)) == ports


def test_stored_port_that_is_busy_is_replaced_and_other_ports_are_kept(fs: MemoryFilesystem) -> None:
    first = kept(fs, 40_000, 40_001, 40_002)
    chosen(first)
    first.save()
    assert chosen(kept(fs, 40_002, 40_007, busy=(40_001,))) == [40_000, 40_007, 40_002]


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"controller": "x", "broker-1": -1, "broker-2": 70000}', b"[" * 100_000])
def test_damaged_file_of_cluster_ports_is_replaced_with_new_ports(fs: MemoryFilesystem, content: bytes) -> None:
    fs.write_file(f"{DATA}/{PORTS_FILE}", content)
    assert chosen(kept(fs, 1, 2, 3)) == [1, 2, 3]


def test_ports_of_brokers_absent_in_one_start_are_kept(fs: MemoryFilesystem) -> None:
    first = kept(fs, 40_000, 40_001, 40_002)
    chosen(first)
    first.save()
    second = kept(fs)
    second.port("controller", HOST)
    second.save()
    assert chosen(kept(fs)) == [40_000, 40_001, 40_002]
