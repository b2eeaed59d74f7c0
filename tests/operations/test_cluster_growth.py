"""`ottla cluster grow` turns a broker's directory into a cluster's directories: refused directories, and the data afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import count

import pytest

from ottla.operations.cluster_growth import GrownCluster, grow
from ottla.operations.grown_metadata import replicas_of
from ottla.operations.kafka_metadata import read_metadata
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import batches
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.growth import GATHERING, GROWTH_DIRECTORY
from ottla.storage.identity import DirectoryError, read_identity
from ottla.storage.last_stop import CLEAN_FILE
from tests.broker.membership.member_world import Member, MemberWorld
from tests.broker.membership.test_members import metadata
from tests.scenarios.play import perform
from tests.scenarios.world import World

pytestmark = pytest.mark.smoke

NOW_MS = 1_700_000_000_000
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}
COMMANDS = (
    "topic t partitions=3 max.message.bytes=5000",
    "topic compacted cleanup.policy=compact",
    "A = init x",
    *["produce A t", "offsets A g t=1", "commit A"] * 3,
    "B = init y",
    "produce B t/1",
    "produce B compacted keyed",
)
"""Scenario commands that write a single broker's data, which the tests convert into a cluster. The transaction of
``y`` remains open."""


@cache
def written(*, kill: bool, node_id: str = "1") -> Mapping[str, bytes]:
    """Run `COMMANDS` on a single broker and stop or kill it. Returns the files of its directory."""
    broker = SimulatedBroker({**SETTINGS, "node.id": node_id}).start()
    world = World(broker, "ottla", "")
    for command in COMMANDS:
        answer = perform(world, command)
        assert answer == "" or answer.startswith("NONE"), f"{command}: {answer}"
    world.close()
    assert isinstance(broker.fs, MemoryFilesystem)
    if kill:
        broker.abandon()
    else:
        broker.close()
    return {path: bytes(raw) for path, raw in broker.fs.files.items()}


def uuids() -> Callable[[], bytes]:
    numbers = count(1)
    return lambda: bytes([next(numbers)]) * 16


def grown(fs: MemoryFilesystem, brokers: int = 3, replication_factor: int = 1) -> GrownCluster:
    return grow(fs, DATA_DIR, brokers, replication_factor, uuids(), NOW_MS, lambda _: None)


def logs(files: Mapping[str, Buffer], directory: str) -> dict[str, bytes]:
    """Return the content of all partition logs below a directory, by relative path."""
    below = {path.removeprefix(f"{directory}/"): bytes(raw) for path, raw in files.items() if path.startswith(f"{directory}/")}
    return {path: raw for path, raw in below.items() if path.endswith(".log") and not path.startswith(("__cluster", "."))}


class Cluster:
    """The grown cluster, running. Scenario commands go to its first broker, which leads all partitions at first."""

    def __init__(self, fs: MemoryFilesystem, brokers: int) -> None:
        moved = {path.removeprefix(DATA_DIR): bytes(raw) for path, raw in fs.files.items()}
        self.world = MemberWorld(SETTINGS, moved)
        self.members = [self.world.start(node_id) for node_id in range(1, brokers + 1)]
        self.world.sleep(3_000)

    def connect(self, client_id: str) -> SimulatedClient:
        return self.members[0].connect()

    def sleep(self, ms: float) -> None:
        self.world.sleep(ms)

    def now_ms(self) -> int:
        return int(self.world.env.now_ms())

    def close(self) -> None:
        for member in reversed(self.members):
            self.world.stop(member)
        self.world.close()
        assert self.world.bugs == 0

    @property
    def fs(self) -> MemoryFilesystem:
        return self.world.fs


def epochs(member: Member) -> dict[tuple[str, int], int]:
    topics = member.server.cluster.state.topics.values()
    return {(topic.name, index): p.leader_epoch for topic in topics for index, p in enumerate(topic.partitions)}


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("node_id", ["1", "7"])
def test_grown_cluster_keeps_topics_configs_records_and_offsets(*, kill: bool, node_id: str) -> None:
    before = written(kill=kill, node_id=node_id)
    fs = MemoryFilesystem(before)
    state = read_metadata(fs, DATA_DIR, []).state
    identity = read_identity(fs, DATA_DIR)
    described = grown(fs)
    assert identity is not None and described.cluster_id == identity.cluster_id
    assert (described.brokers, described.topics, described.partitions) == (3, 4, 8)
    assert logs(fs.files, f"{DATA_DIR}/broker-1") == logs(before, DATA_DIR)
    assert fs.list_dir(DATA_DIR) == ["broker-1", "broker-2", "broker-3", "controller"]

    cluster = Cluster(fs, 3)
    now = cluster.members[0].server.cluster.state
    assert {name: topic.topic_id for name, topic in now.topics.items()} == {n: t.topic_id for n, t in state.topics.items()}
    assert now.config_of(2, "t") == state.config_of(2, "t") != {}
    assert now.features == {name: level for name, level in state.features.items() if name != "kraft.version"}
    assert now.next_producer_id >= state.next_producer_id
    assert set(epochs(cluster.members[0]).values()) == {epochs(cluster.members[2])["t", 0]}
    assert all(epoch > 0 for epoch in epochs(cluster.members[0]).values())
    with cluster.members[1].connect() as client:
        assert [p.leader_id for p in metadata(client, "t", may_create=False).partitions] == [1, 1, 1]
    world = World(cluster, "ottla", "")  # type: ignore[arg-type]
    assert perform(world, "committed g t") == "1"
    # InitProducerId aborts the open transaction and keeps the producer id.
    assert perform(world, "C = init y").startswith(("NONE", "CONCURRENT"))
    cluster.sleep(2_000)
    world.close()
    cluster.close()
    assert not [path for path in cluster.fs.files if "-stray" in path]


def test_replicas_of_a_grown_cluster_catch_up_and_leaders_are_spread() -> None:
    fs = MemoryFilesystem(written(kill=False))
    assert grown(fs, 3, 3).replication_factor == 3
    cluster = Cluster(fs, 3)
    cluster.sleep(20_000)
    for topic in cluster.members[0].server.cluster.state.topics.values():
        assert all(sorted(p.isr) == [1, 2, 3] for p in topic.partitions), topic.name
    cluster.sleep(400_000)
    leaders = Counter(p.leader for topic in cluster.members[0].server.cluster.state.topics.values() for p in topic.partitions)
    assert sorted(leaders.values()) == [2, 3, 3]
    cluster.close()
    first = logs(cluster.fs.files, "/broker-1")
    for other in ("/broker-2", "/broker-3"):
        found = logs(cluster.fs.files, other)
        for path, raw in first.items():
            whole = [(h.base_offset, h.crc) for _, h in batches(raw)]
            assert [(h.base_offset, h.crc) for _, h in batches(found[path])] == whole


@pytest.mark.parametrize(("brokers", "factor"), [(2, 2), (3, 2), (3, 3), (5, 3), (9, 3), (4, 4)])
def test_replicas_of_a_grown_cluster_are_spread_over_the_brokers(brokers: int, factor: int) -> None:
    placed = [replicas_of(number, brokers, factor) for number in range(brokers * (brokers - 1) * 6)]
    assert all(len(set(replicas)) == factor and 1 in replicas for replicas in placed)
    assert len(set(Counter(replicas[0] for replicas in placed).values())) == 1
    others = Counter(broker for replicas in placed for broker in replicas if broker != 1)
    assert set(others) == set(range(2, brokers + 1))
    assert max(others.values()) - min(others.values()) <= len(placed) // 10


def test_cluster_growth_does_not_allocate_producer_ids_lost_in_a_power_cut_again() -> None:
    fs = MemoryFilesystem(written(kill=True))
    log = f"{DATA_DIR}/__cluster_metadata-0/{0:020}.log"
    whole = bytes(fs.files[log])
    cut = next(position for position, header in batches(whole) if header.base_offset > 0 and _allots(whole, position))
    fs.write_file(log, whole[:cut])
    grown(fs)
    assert read_metadata(fs, f"{DATA_DIR}/controller", []).state.next_producer_id == 1_000


def _allots(raw: bytes, position: int) -> bool:
    """Whether the metadata log, truncated at ``position``, has all topics but no allocated producer ids."""
    fs = MemoryFilesystem({f"/m/__cluster_metadata-0/{0:020}.log": raw[:position]})
    kept = read_metadata(fs, "/m", []).state
    return "t" in kept.topics and "__transaction_state" in kept.topics and kept.next_producer_id == 0


def test_directories_that_cannot_become_a_cluster_are_refused_unchanged() -> None:
    def refuses(match: str, files: Mapping[str, bytes], brokers: int = 3, factor: int = 1) -> None:
        fs = MemoryFilesystem(files)
        with pytest.raises(DirectoryError, match=match):
            grown(fs, brokers, factor)
        assert {path: bytes(raw) for path, raw in fs.files.items()} == dict(files)

    whole = dict(written(kill=False))
    refuses("no data of a broker", {f"{DATA_DIR}/notes.txt": b""})
    refuses("cannot have 4 replicas", whole, 3, 4)
    refuses("but the controller needs this path", {**whole, f"{DATA_DIR}/controller/mine": b""})
    refuses("reset or restore", {**whole, f"{DATA_DIR}/.ottla-replacement/incoming/x": b""})
    refuses("Apache Kafka", {**whole, f"{DATA_DIR}/__cluster_metadata-0/quorum-state": b""})
    cluster = MemoryFilesystem(whole)
    grown(cluster)
    refuses("has the data of a cluster", {path: bytes(raw) for path, raw in cluster.files.items()})
    for node in ("broker-1", "controller"):
        members = Cluster(cluster, 1)
        members.close()
        of_node = {p.replace(f"/{node}", DATA_DIR): bytes(r) for p, r in members.fs.files.items() if p.startswith(f"/{node}/")}
        refuses("of several", of_node)


def test_cluster_growth_without_disk_space_for_the_replicas_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = MemoryFilesystem(written(kill=False))
    monkeypatch.setattr(fs, "space", lambda path: (1_000, 1_000))
    with pytest.raises(DirectoryError, match="the new replicas need"):
        grown(fs, 3, 2)
    grown(fs, 3)


@pytest.fixture
def interrupted() -> Iterator[MemoryFilesystem]:
    """A directory whose growth was interrupted after it began to move data."""
    fs = MemoryFilesystem(written(kill=False))

    class Stopped(Exception): ...

    def rename(old: str, new: str) -> None:
        MemoryFilesystem.rename(fs, old, new)
        if new.endswith(GATHERING):
            raise Stopped

    fs.rename = rename  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        grown(fs)
    del fs.rename
    yield fs


def test_interrupted_cluster_growth_prevents_a_start_and_is_finished_by_the_next_call(interrupted: MemoryFilesystem) -> None:
    broker = SimulatedBroker(SETTINGS, fs=interrupted)
    with pytest.raises(DirectoryError, match="cluster grow was interrupted"):
        broker.start()
    assert f"{DATA_DIR}/{CLEAN_FILE}" in interrupted.files
    finished = grown(interrupted, 5, 3)
    assert (finished.was_interrupted, finished.brokers, finished.replication_factor) == (True, 3, 1)
    assert interrupted.is_dir(f"{DATA_DIR}/{GROWTH_DIRECTORY}") is None
