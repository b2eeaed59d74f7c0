"""Reset, restore and snapshot are killed or refused at any file operation: afterwards the data is completely old or new."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Coroutine, Iterator
from functools import cache
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from ottla.broker.broker import BrokerServer
from ottla.broker.config.definitions import ConfigError
from ottla.broker.metadata.metadata_log import LocalMetadataLog
from ottla.broker.process import serving
from ottla.operations.snapshots import MANIFEST_FILE, Manifest, growing_snapshot
from ottla.protocol.records import read_records
from ottla.simulation.broker import DATA_DIR
from ottla.simulation.client import Closed
from ottla.simulation.faulty_filesystem import PowerCut
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.simulation.torn_disk import TornDisk
from ottla.simulation.tracing_filesystem import TracingFilesystem
from ottla.storage.identity import DirectoryError, read_identity
from ottla.storage.last_stop import CLEAN_FILE
from ottla.storage.replacement import REPLACEMENT_DIRECTORY, is_broker_data
from tests.broker.serving_world import ServingWorld, make_topic, topics
from tests.broker.share_world import produce
from tests.storage.killing_filesystem import KillingFilesystem
from tests.support.logs import stored

SNAPSHOT = "/kept"
DURABILITIES = ["process", "power"]
NOTES = f"{DATA_DIR}/notes.txt"
"""A file of another program in the data directory."""

State = dict[str, list[bytes]]
"""A broker's data as the record values of each topic."""
OLD: State = {"old": [b"0", b"1", b"2"], "shared": [b"0"]}
TAKEN: State = {"shared": [b"0", b"1"], "taken": [b"0"]}

Operation = Callable[[ServingWorld], Coroutine[Any, Any, None]]
OPERATIONS: dict[str, tuple[Operation, State]] = {
    "reset": (lambda world: world.serving.reset(), {}),
    "restore": (lambda world: world.serving.restore(SNAPSHOT), TAKEN),
    "snapshot": (lambda world: world.serving.snapshot("/another"), OLD),
}
"""The tested operations, each with the state of the broker's data after the operation."""


def fill(world: ServingWorld, state: State) -> None:
    client = world.connect()
    for name, values in state.items():
        make_topic(client, name)
        produce(client, len(values), name)


def state_of(world: ServingWorld) -> State:
    state: State = {}
    for name in topics(world.connect()):
        log = world.broker.partitions.get(name, 0).log
        assert log.offline_reason is None
        state[name] = [record.value or b"" for _, raw in stored(log) for record in read_records(raw)]
    return state


@cache
def files_of(seed: int) -> dict[str, bytes]:
    """Return the files of a stopped broker with the data `OLD` and of a snapshot with the data `TAKEN`."""
    world = ServingWorld(seed=seed)
    fill(world, TAKEN)
    world.run(world.serving.snapshot(SNAPSHOT))
    world.run(world.serving.reset())
    fill(world, OLD)
    world.close()
    return {path: bytes(content) for path, content in world.fs.files.items()}


def begun(durability: str = "process", *, seed: int = 1) -> ServingWorld:
    """Start a broker with the data `OLD` on a disk that also has a snapshot with the data `TAKEN`."""
    fs = KillingFilesystem()
    for path, content in files_of(seed).items():
        fs.write_file(path, content)
    fs.write_file(NOTES, b"mine")
    return ServingWorld(fs, {"ottla.durability": durability})


@pytest.fixture(autouse=True)
def without_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the garbage collection after each replacement, which would take most of these tests' time."""
    monkeypatch.setattr(serving, "_collect_garbage", lambda: None)


def files(world: ServingWorld) -> KillingFilesystem:
    assert isinstance(world.fs, KillingFilesystem)
    return world.fs


def operations_of(operation: str, durability: str) -> int:
    world = begun(durability)
    files(world).begin()
    world.run(OPERATIONS[operation][0](world))
    count = len(files(world).operations)
    world.close()
    return count


def check_left(world: ServingWorld) -> None:
    assert REPLACEMENT_DIRECTORY not in world.fs.list_dir(DATA_DIR)
    assert world.fs.read_file(NOTES) == b"mine"
    make_topic(client := world.connect(), "later")
    assert produce(client, 1, "later") == 0


@pytest.mark.heavy
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_kill_during_reset_or_restore_leaves_old_or_new_data(operation: str, durability: str) -> None:
    run, new = OPERATIONS[operation]
    seen: list[State] = []
    for number in range(operations_of(operation, durability)):
        world = begun(durability)
        cluster_id = world.broker.cluster_id
        files(world).kill_at(number)
        with pytest.raises(PowerCut):
            world.run(run(world))
        files(world).begin()
        world.kill()
        again = ServingWorld(world.fs, {"ottla.durability": durability}, seed=2)
        assert again.broker.cluster_id == cluster_id
        seen.append(state_of(again))
        check_left(again)
        if operation == "snapshot":
            if world.fs.is_dir("/another") is None:
                again.run(again.serving.snapshot("/another"))
            again.run(again.serving.restore("/another"))
            assert {name: values for name, values in state_of(again).items() if name != "later"} == OLD
        again.close()
    changed = seen.index(new)
    assert seen == [OLD] * changed + [new] * (len(seen) - changed)


@pytest.mark.heavy
@pytest.mark.parametrize("operation", ["reset", "restore"])
def test_power_cut_during_reset_or_restore_leaves_old_or_new_data(operation: str) -> None:
    """The broker has ``ottla.durability=power``, and any set of unsynced writes may have reached the disk."""
    run, new = OPERATIONS[operation]
    settings = {"ottla.durability": "power"}
    fs = TracingFilesystem(MemoryFilesystem(files_of(1)))
    world = ServingWorld(cast(Any, fs), settings)
    begun_at = len(fs.trace)
    world.run(run(world))
    disk, rng = TornDisk(files_of(1)), random.Random(1)
    seen = []
    for number, performed in enumerate(fs.trace, 1):
        disk.apply(performed)
        if number < begun_at:
            continue
        states = dict(disk.states(rng))
        for name in {"unsynced dropped", rng.choice(list(states))}:
            again = ServingWorld(MemoryFilesystem(states[name]), settings, seed=2)
            found = state_of(again)
            assert found in (OLD, new), name
            seen.append(found)
            again.close()
    assert seen[0] == OLD
    assert seen[-1] == new
    world.close()


@pytest.mark.heavy
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_disk_error_during_reset_or_restore_leaves_old_or_new_data(operation: str, code: int) -> None:
    run, new = OPERATIONS[operation]
    outcomes = set()
    for number in range(operations_of(operation, "process")):
        world = begun()
        files(world).error = code
        files(world).begin(lambda at, kind, path, wanted=number: at == wanted)
        has_failed = False
        with capture_logs():
            try:
                world.run(run(world))
            except (OSError, DirectoryError):
                has_failed = True
        files(world).begin()
        assert world.serving.failure is None
        assert state_of(world) == (OLD if has_failed else new)
        outcomes.add(has_failed)
        for _ in range(2):
            world.run(world.serving.restore(SNAPSHOT))
        assert state_of(world) == TAKEN
        check_left(world)
        world.close()
    assert outcomes == {True, False}


@pytest.mark.heavy
@pytest.mark.parametrize("operation", OPERATIONS)
def test_disk_full_during_reset_or_restore_leaves_old_or_new_data(operation: str) -> None:
    run, new = OPERATIONS[operation]
    for number in range(operations_of(operation, "process")):
        world = begun()
        files(world).begin(lambda at, kind, path, first=number: at >= first and kind in ("append", "write", "make_dir"))
        expected = new
        with capture_logs():
            try:
                world.run(run(world))
            except (OSError, DirectoryError):
                expected = OLD
        assert world.serving.failure is None
        assert state_of(world) == expected
        files(world).begin()
        world.run(world.serving.restore(SNAPSHOT))
        assert state_of(world) == TAKEN
        world.close()


def damage(world: ServingWorld) -> Iterator[tuple[str, bytes | None]]:
    """Ways to damage the snapshot: the path of a file, and its new content or None for deletion."""
    rng = random.Random(1)
    paths = [path for path in world.fs.files if path.startswith(f"{SNAPSHOT}/")]
    for path in sorted(paths):
        content = bytes(world.fs.files[path])
        if not content or path.endswith("meta.properties"):
            continue
        yield path, None
        yield path, content[:-1]
        yield path, b""
        for _ in range(5):
            flipped = bytearray(content)
            flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            yield path, bytes(flipped)


def test_damaged_data_snapshot_is_not_restored_and_the_broker_continues() -> None:
    world = begun()
    client = world.connect()
    for path, content in list(damage(world)):
        before = world.fs.read_file(path)
        assert before is not None
        if content is None:
            world.fs.unlink(path)
        else:
            world.fs.write_file(path, content)
        with pytest.raises(DirectoryError, match=f"^{SNAPSHOT} "):
            world.run(world.serving.restore(SNAPSHOT))
        world.fs.write_file(path, before)
        assert topics(client) == set(OLD), "the client is still connected"
    world.run(world.serving.restore(SNAPSHOT))
    assert state_of(world) == TAKEN
    world.close()


def changed_manifest(world: ServingWorld, change: Callable[[dict[str, Any]], None]) -> None:
    raw = world.fs.read_file(f"{SNAPSHOT}/{MANIFEST_FILE}")
    assert raw is not None
    manifest = msgspec.json.decode(raw)
    change(manifest)
    world.fs.write_file(f"{SNAPSHOT}/{MANIFEST_FILE}", msgspec.json.encode(manifest))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2, "files": "in another form"}, "was taken by another version of ottla"),
        ({"version": "1"}, "is damaged"),
        ({"node_id": 2}, "is a snapshot of node 2, and node.id is 1"),
        ({"files": {}}, f"is damaged .*has no {CLEAN_FILE}"),
        ({"files": {CLEAN_FILE: [0, 0], "../data/t-0": [0, 0]}}, "is damaged"),
        ({"files": {CLEAN_FILE: [0, 0], "t-0/..": [0, 0]}}, "is damaged"),
        ({"files": {CLEAN_FILE: [0, 0], "t-0/../../etc": [0, 0]}}, "is damaged"),
        ({"files": {CLEAN_FILE: [0, 0], ".lock": [0, 0]}}, "is damaged"),
    ],
)
def test_data_snapshot_with_an_unusable_manifest_is_refused(change: dict[str, Any], reason: str) -> None:
    world = begun()
    changed_manifest(world, lambda manifest: manifest.update(change))
    with pytest.raises(DirectoryError, match=f"{SNAPSHOT} {reason}"):
        world.run(world.serving.restore(SNAPSHOT))
    assert state_of(world) == OLD
    world.close()


def test_restore_of_a_directory_without_manifest_is_refused() -> None:
    world = begun()
    world.fs.make_dir("/empty")
    for path in ("/empty", "/nowhere", NOTES):
        with pytest.raises(DirectoryError, match=f"{path} is not a snapshot: it has no {MANIFEST_FILE}"):
            world.run(world.serving.restore(path))
    assert state_of(world) == OLD
    world.close()


def test_restore_is_undone_if_the_broker_cannot_start_with_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are undamaged, so only the broker's start detects the problem."""
    world = begun()
    loads = iter((True, False))
    load = LocalMetadataLog.load

    def failing_load(log: LocalMetadataLog) -> bool:
        if next(loads):
            raise DirectoryError("the metadata is of the future")
        return load(log)

    monkeypatch.setattr(LocalMetadataLog, "load", failing_load)
    with pytest.raises(DirectoryError, match="of the future"):
        world.run(world.serving.restore(SNAPSHOT))
    assert state_of(world) == OLD
    check_left(world)
    world.close()


def test_reset_callback_is_undone_when_the_new_broker_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    world = begun()
    called: list[str] = []

    def on_replaced() -> Callable[[], None]:
        called.append("replaced")
        return lambda: called.append("undone")

    world.run(world.serving.reset(on_replaced))
    assert called == ["replaced"]
    start = BrokerServer.start

    async def start_on_old_data(server: BrokerServer) -> None:
        if called[-1] == "replaced":
            raise ConfigError("cannot listen")
        await start(server)

    monkeypatch.setattr(BrokerServer, "start", start_on_old_data)
    with pytest.raises(ConfigError):
        world.run(world.serving.reset(on_replaced))
    assert called == ["replaced", "replaced", "undone"]
    assert world.serving.failure is None
    world.close()


def test_restore_of_another_clusters_snapshot_keeps_the_brokers_cluster_id() -> None:
    other = begun(seed=2)
    world = begun()
    for path, content in other.fs.files.items():
        if path.startswith(f"{SNAPSHOT}/"):
            world.fs.write_file(path.replace(SNAPSHOT, "/other"), content)
    identity = read_identity(world.fs, DATA_DIR)
    assert read_identity(other.fs, SNAPSHOT) != identity
    other.close()
    world.run(world.serving.restore("/other"))
    assert read_identity(world.fs, DATA_DIR) == identity
    assert state_of(world) == TAKEN
    world.close()


def test_data_snapshot_to_an_existing_path_is_refused() -> None:
    world = begun()
    client = world.connect()
    world.fs.write_file("/file", b"")
    for path in (SNAPSHOT, "/file"):
        with pytest.raises(DirectoryError, match=f"{path} already exists"):
            world.run(world.serving.snapshot(path))
    assert topics(client) == set(OLD), "the broker still runs"
    world.fs.write_file(f"{growing_snapshot('/new')}/t-0/0.log", b"of a killed process")
    world.run(world.serving.snapshot("/new"))
    assert world.fs.is_dir(growing_snapshot("/new")) is None
    assert not [path for path in world.fs.files if path.startswith("/new/t-0/")]
    world.close()


def test_data_snapshot_of_data_that_could_not_be_written_is_refused() -> None:
    world = begun()
    fs = files(world)
    fs.begin(lambda number, kind, path: path == f"{DATA_DIR}/{CLEAN_FILE}")
    with capture_logs(), pytest.raises(DirectoryError, match="could not write all of its data"):
        world.run(world.serving.snapshot("/another"))
    fs.begin()
    assert state_of(world) == OLD
    assert "another" not in str(fs.list_dir(""))
    world.close()


def test_concurrent_resets_and_restores_run_one_after_another() -> None:
    world = begun()

    async def all_at_once() -> None:
        await asyncio.gather(
            world.serving.reset(), world.serving.restore(SNAPSHOT), world.serving.snapshot("/another"), world.serving.reset()
        )
        assert world.broker.lifecycle.is_serving

    world.run(all_at_once())
    assert state_of(world) == {}
    world.run(world.serving.restore("/another"))
    assert state_of(world) == TAKEN
    world.close()


def test_broker_stop_waits_for_a_running_reset_or_restore() -> None:
    world = begun()

    async def all_at_once() -> None:
        restored, _, refused = await asyncio.gather(
            world.serving.restore(SNAPSHOT), world.serving.stop(), world.serving.reset(), return_exceptions=True
        )
        assert restored is None
        assert str(refused) == "the broker is stopping"

    world.run(all_at_once())
    world.close()
    again = ServingWorld(world.fs)
    assert state_of(again) == TAKEN
    again.close()


def test_producer_is_disconnected_by_a_reset() -> None:
    world = begun()
    client = world.connect()
    assert produce(client, 1, "old") == 3
    world.run(world.serving.reset())
    with pytest.raises(Closed):
        produce(client, 1, "old")
    assert state_of(world) == {}
    world.close()


def test_data_directory_stays_locked_during_a_reset_or_restore() -> None:
    world = begun()
    locks = []
    fs = files(world)
    fs.begin(lambda number, kind, path: bool(locks.append(fs.lock(f"{DATA_DIR}/.lock"))))
    world.run(world.serving.restore(SNAPSHOT))
    assert locks
    assert not any(locks)
    world.close()


def test_broker_files_are_recognized_and_listed_in_the_manifest_of_a_snapshot() -> None:
    world = begun()
    world.run(world.serving.restore(SNAPSHOT))
    world.close()
    names = world.fs.list_dir(DATA_DIR)
    assert sorted(filter(is_broker_data, names)) == sorted(set(names) - {"notes.txt"})
    raw = world.fs.read_file(f"{SNAPSHOT}/{MANIFEST_FILE}")
    assert raw is not None
    files = msgspec.json.decode(raw, type=Manifest).files
    assert {path.partition("/")[0] for path in files} == set(world.fs.list_dir(SNAPSHOT)) - {MANIFEST_FILE}
