"""Commands on a stopped broker's directory are killed at any disk operation. The next start or command finds complete data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count, groupby

import pytest

from ottla.brokers.plan import format_directory
from ottla.operations.adoption import carry_out as adopt
from ottla.operations.adoption import plan_adoption
from ottla.operations.cluster_growth import grow
from ottla.operations.graduation import bootstrap, hand_over, plan_graduation
from ottla.operations.graduation import carry_out as graduate
from ottla.protocol.primitives import Buffer
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.faulty_filesystem import PowerCut
from ottla.storage.growth import is_growing
from ottla.storage.identity import BOOTSTRAP_FILE, DirectoryError, DirectoryIdentity, check_not_kafkas
from tests.operations.test_graduation import SETTINGS, written
from tests.storage.killing_filesystem import KillingFilesystem
from tests.support.logs import NOW_MS, Logs, put, stored


def with_files(disk: Mapping[str, Buffer]) -> KillingFilesystem:
    fs = KillingFilesystem()
    for path, content in disk.items():
        fs.write_file(path, content)
    return fs


def kills(disk: Mapping[str, Buffer], work: Callable[[KillingFilesystem], object]) -> Iterator[KillingFilesystem]:
    """Yield the disk after a kill at each operation of ``work``, and finally after ``work`` ran without a kill."""
    for number in count():
        fs = with_files(disk)
        fs.kill_at(number)
        was_killed = False
        try:
            work(fs)
        except PowerCut:
            was_killed = True
        fs.begin()
        yield fs
        if not was_killed:
            assert number > 0
            return


def progress(done: int, total: int) -> None: ...


def topics_on(fs: KillingFilesystem, directory: str) -> dict[str, int]:
    """Start a broker on the directory. Returns the number of records of each topic."""
    broker = SimulatedBroker({**SETTINGS, "log.dirs": directory}, fs=fs).start()
    found = {}
    for name, topic in broker.broker.cluster.state.topics.items():
        logs = [broker.broker.partitions.get(name, index).log for index in range(topic.partition_count)]
        assert not any(log.offline_reason for log in logs)
        found[name] = sum(header.record_count for log in logs for header, _ in stored(log))
    broker.stop()
    assert broker.bugs == 0
    return found


@pytest.mark.smoke
def test_killed_graduate_command_leaves_a_complete_copy_or_no_copy() -> None:
    def work(fs: KillingFilesystem) -> None:
        graduate(fs, DATA_DIR, "/kafka", plan_graduation(fs, DATA_DIR, {}), progress)

    *_, done = kills(written(kill=False), work)
    whole = {path: bytes(content) for path, content in done.files.items() if path.startswith("/kafka/")}
    assert f"/kafka/{BOOTSTRAP_FILE}" in whole
    seen = []
    for fs in kills(written(kill=False), work):
        found = {path: bytes(content) for path, content in fs.files.items() if path.startswith("/kafka/")}
        assert found in ({}, whole)
        seen.append(bool(found))
        if not found:
            work(fs)
        assert fs.files.keys() == done.files.keys()
    assert [has_copy for has_copy, _ in groupby(seen)] == [False, True]


def test_killed_in_place_graduate_command_leaves_a_directory_of_ottla_or_kafka() -> None:
    whole = with_files(written(kill=False))
    snapshot = bootstrap(plan_graduation(whole, DATA_DIR, {}).records)
    topics = topics_on(whole, DATA_DIR)
    seen = []
    for fs in kills(written(kill=False), lambda fs: hand_over(fs, DATA_DIR, plan_graduation(fs, DATA_DIR, {}))):
        try:
            check_not_kafkas(fs, DATA_DIR)
        except DirectoryError:
            assert fs.read_file(f"{DATA_DIR}/{BOOTSTRAP_FILE}") == snapshot
            seen.append(True)
        else:
            assert topics_on(fs, DATA_DIR) == topics
            hand_over(fs, DATA_DIR, plan_graduation(fs, DATA_DIR, {}))
            seen.append(False)
    assert [is_kafkas for is_kafkas, _ in groupby(seen)] == [False, True]


@pytest.mark.heavy
def test_killed_adopt_command_adopts_each_topic_completely_or_not_at_all() -> None:
    sources = KillingFilesystem()
    for directory in ("/source/t-0", "/source/t-1", "/source/u-0", "/earlier/v-0"):
        log = Logs(sources, directory).new()
        put(log, 3)
        log.close()

    def work(fs: KillingFilesystem, source: str = "/source") -> None:
        plan = plan_adoption(fs, source, [], (bytes([number]) * 16 for number in count(1)))
        adopt(fs, "/target", plan, DirectoryIdentity("cluster", 1, "directory"), NOW_MS, progress)

    work(sources, "/earlier")
    before, after = {"v": 3}, {"v": 3, "t": 6, "u": 3}
    seen = []
    for fs in kills(sources.files, work):
        found = topics_on(fs, "/target")
        assert found in (before, after)
        if found == before:
            work(fs)
            assert topics_on(fs, "/target") == after
        seen.append(found == after)
    assert [is_adopted for is_adopted, _ in groupby(seen)] == [False, True]


@pytest.mark.smoke
def test_killed_cluster_growth_leaves_one_broker_or_is_completed_by_the_next_call() -> None:
    def work(fs: KillingFilesystem) -> None:
        uuids = (bytes([number]) * 16 for number in count(1))
        grow(fs, DATA_DIR, 3, 2, lambda: next(uuids), NOW_MS, lambda _: None)

    *_, done = kills(written(kill=False), work)
    whole = {path: bytes(content) for path, content in done.files.items()}
    before, seen = topics_on(with_files(written(kill=False)), DATA_DIR), []
    for fs in kills(written(kill=False), work):
        left = is_growing(fs, DATA_DIR) or fs.files == done.files
        if not left and f"{DATA_DIR}/controller/meta.properties" not in fs.files:
            assert topics_on(with_files(fs.files), DATA_DIR) == before
        elif is_growing(fs, DATA_DIR):
            with pytest.raises(DirectoryError, match="interrupted"):
                topics_on(fs, DATA_DIR)
        if fs.files.keys() != whole.keys():
            work(fs)
        assert {path: bytes(content) for path, content in fs.files.items()} == whole
        seen.append(left)
    assert [has_begun for has_begun, _ in groupby(seen)][:2] == [False, True]


def test_killed_cluster_format_is_completed_with_one_cluster_id() -> None:
    uuids = (bytes([number]) * 16 for number in count(1))

    def work(fs: KillingFilesystem) -> None:
        cluster_id: str | None = None
        for node_id, name in ((3000, "controller"), (1, "broker-1"), (2, "broker-2")):
            cluster_id = format_directory(fs, f"/cluster/{name}", node_id, lambda: next(uuids), cluster_id)

    for fs in kills({}, work):
        work(fs)
        assert len(fs.files) == 6
