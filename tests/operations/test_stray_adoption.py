"""`ottla adopt` restores a topic from its stray directories, all partitions together or none."""

from __future__ import annotations

from itertools import count, groupby

import pytest

from ottla.operations.adoption import carry_out, plan_adoption
from ottla.protocol.errors import Code, KafkaError
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.checkpoints import read_partition_metadata, write_partition_metadata
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import DirectoryError, DirectoryIdentity
from tests.operations.test_kills import kills, progress, topics_on
from tests.storage.killing_filesystem import KillingFilesystem
from tests.support.logs import NOW_MS
from tests.support.strays import RECORDS, TOPIC, make, stray, with_strays

WHOLE = {"kept": 2 * RECORDS, TOPIC: 2 * RECORDS}


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


def adopt(fs: Filesystem, target: str = DATA_DIR, new_name: str | None = None, source: str = stray(0)) -> list[str]:
    """Adopt a stray directory. Returns the notes of the plan."""
    plan = plan_adoption(fs, f"{DATA_DIR}/{source}", [], (bytes([number]) * 16 for number in count(1)), new_name)
    carry_out(fs, target, plan, DirectoryIdentity("cluster", 1, "directory"), NOW_MS, progress)
    return plan.notes


def id_on(fs: MemoryFilesystem, topic: str) -> bytes:
    broker = SimulatedBroker(fs=fs).start()
    topic_id = broker.broker.cluster.state.topics[topic].topic_id
    broker.stop()
    assert broker.bugs == 0
    return topic_id


def test_adopt_command_restores_all_stray_partitions_of_a_topic_with_its_topic_id(fs: MemoryFilesystem) -> None:
    topic_id = with_strays(fs)
    notes = adopt(fs)
    assert any("the stray directories stay" in note and stray(1) in note for note in notes)
    assert topics_on_memory(fs) == WHOLE
    assert id_on(fs, TOPIC) == topic_id
    assert {stray(0), stray(1)} <= set(fs.list_dir(DATA_DIR))


def topics_on_memory(fs: MemoryFilesystem) -> dict[str, int]:
    killing = KillingFilesystem()
    for path, content in fs.files.items():
        killing.write_file(path, content)
    return topics_on(killing, DATA_DIR)


def test_adopt_command_restores_strays_under_a_new_name_beside_a_recreated_topic(fs: MemoryFilesystem) -> None:
    topic_id = with_strays(fs)
    broker = SimulatedBroker(fs=fs).start()
    new_id = make(broker, TOPIC)
    broker.stop()
    with pytest.raises(DirectoryError, match=f"already has a topic {TOPIC}; .*--as"):
        adopt(fs)
    adopt(fs, new_name="orders-restored")
    assert topics_on_memory(fs) == {**WHOLE, "orders-restored": 2 * RECORDS}
    restored_id = id_on(fs, "orders-restored")
    assert id_on(fs, TOPIC) == new_id
    assert restored_id not in (topic_id, new_id)
    assert read_partition_metadata(fs, f"{DATA_DIR}/orders-restored-0") == restored_id
    assert read_partition_metadata(fs, f"{DATA_DIR}/{stray(0)}") == topic_id


def test_stray_partitions_with_the_topic_id_of_an_existing_topic_are_not_adopted(fs: MemoryFilesystem) -> None:
    with_strays(fs)
    adopt(fs, new_name="first")
    write_partition_metadata(fs, f"{DATA_DIR}/{stray(0)}", id_on(fs, "first"))
    with pytest.raises(DirectoryError, match=f"already has the topic id of {TOPIC}, as first; give the copy a name with --as"):
        adopt(fs)


def test_stray_partitions_with_the_same_name_and_another_topic_id_are_not_adopted(fs: MemoryFilesystem) -> None:
    with_strays(fs)
    write_partition_metadata(fs, f"{DATA_DIR}/{stray(1)}", bytes(range(16)))
    adopt(fs)
    assert topics_on_memory(fs) == {"kept": 2 * RECORDS, TOPIC: RECORDS}


def test_adopt_command_refuses_two_stray_directories_of_one_partition(fs: MemoryFilesystem) -> None:
    topic_id = with_strays(fs)
    write_partition_metadata(fs, f"{DATA_DIR}/{stray(1, 'b')}", topic_id)
    with pytest.raises(DirectoryError, match=r"are both partition 1 of the topic id .*; move one of them away"):
        adopt(fs)
    # The stray directory in the command takes precedence over another stray directory of the same partition.
    write_partition_metadata(fs, f"{DATA_DIR}/{stray(0, 'b')}", topic_id)
    fs.remove_dir(f"{DATA_DIR}/{stray(1, 'b')}")
    adopt(fs)
    assert topics_on_memory(fs) == WHOLE


def test_adopt_command_refuses_invalid_new_names_and_new_names_for_whole_directories(fs: MemoryFilesystem) -> None:
    with_strays(fs)
    with pytest.raises(KafkaError) as refused:
        adopt(fs, new_name="a b")
    assert refused.value.code is Code.INVALID_TOPIC_EXCEPTION
    with pytest.raises(DirectoryError, match="leave out --as"):
        plan_adoption(fs, DATA_DIR, [], [], "another")


@pytest.mark.heavy
def test_killed_adopt_command_leaves_the_stray_directories_or_the_whole_topic() -> None:
    before = KillingFilesystem()
    with_strays(before)
    seen = []
    for fs in kills(before.files, adopt):
        found = topics_on(fs, DATA_DIR)
        assert found in ({"kept": 2 * RECORDS}, WHOLE)
        if found != WHOLE:
            adopt(fs)
            assert topics_on(fs, DATA_DIR) == WHOLE
        assert {stray(0), stray(1)} <= set(fs.list_dir(DATA_DIR))
        seen.append(found == WHOLE)
    assert [is_back for is_back, _ in groupby(seen)] == [False, True]
