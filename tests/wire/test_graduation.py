"""A directory written by ottla is handed over to Apache Kafka while clients are active."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla import Broker
from ottla.cli.directories import adopt, audit, graduate
from tests.scenarios.brokers import SET_UPS, Wire
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tools.kafka import ApacheKafka, Unavailable, jars

pytestmark = [pytest.mark.wire, pytest.mark.java]


@pytest.fixture(scope="module", autouse=True)
def java() -> None:
    try:
        jars("all")
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")


LOOKS = (
    "ends t",
    "ends t/1",
    "ends u",
    "read t",
    "read t/1",
    "read u",
    "log v keys",
    "read t uncommitted",
    "committed g t",
    "committed g t stable",
)


def live(directory: Path) -> tuple[World, dict[str, str]]:
    """Run a broker that has used every kind of record, and leave a transaction open. Returns the last results of its readers."""
    broker = Broker(data_dir=directory, settings={"log.cleaner.backoff.ms": 50}).start()
    world = World(Wire(broker), "ottla", "")
    for command in (
        "topic t partitions=2 retention.ms=86400000",
        "topic u cleanup.policy=compact",
        "topic v cleanup.policy=compact segment.ms=5000 min.cleanable.dirty.ratio=0.01",
        "N = init",
        "A = init done",
        "B = init aborted",
        "C = init open timeout=600000",
        "produce N t n=3",
        "produce N u keyed",
        "produce A t n=2",
        "produce A t/1",
        "offsets A g t=4",
        "commit A",
        "produce B t n=4",
        "abort B",
        "produce C t",
        "produce C t/1 n=2",
        "produce C t/1",
        "produce N v keys=a,b age=100000",
        "produce N v keys=a age=90000",
        "produce N v keys=-b age=80000",
        "produce N v keys=c age=70000",
        "offsets C g t=9",
        "produce N t",
    ):
        answer = perform(world, command)
        assert answer == "" or answer.startswith("NONE"), f"{command}: {answer}"
    world.until("v is compacted", lambda: perform(world, "log v keys"), lambda said: said.startswith("2 ") and "b= until" in said)
    return world, {command: perform(world, command) for command in LOOKS}


def kafka_on(directory: Path, home: Path, version: str) -> ApacheKafka:
    kafka = ApacheKafka(home, log_dir=directory, version=version)
    return kafka.start()


@pytest.mark.full
@pytest.mark.entry("STO-17")
@pytest.mark.parametrize(
    ("version", "stop", "in_place"),
    [
        ("4.4.0", "stopped", False),
        ("4.4.0", "killed", False),
        ("4.4.0", "stopped", True),
        ("4.3.1", "stopped", False),
        ("4.3.1", "killed", True),
    ],
)
def test_apache_kafka_on_a_directory_handed_over_by_ottla_has_topics_groups_and_transactions(
    tmp_path: Path, version: str, stop: str, in_place: bool
) -> None:
    source, target = tmp_path / "ottla", tmp_path / "kafka"
    world, seen = live(source)
    process = world.broker.process  # type: ignore[attr-defined]
    process.stop() if stop == "stopped" else process.kill()
    world.forget_connection()
    before = {p: p.read_bytes() for p in source.rglob("*") if p.is_file()}
    assert audit(str(source)) == 0
    said: list[str] = []
    features = {"metadata.version": 30} if version == "4.3.1" else {}
    to = None if in_place else str(target)
    assert graduate(str(source), to, dry_run=False, in_place=in_place, features=features, say=said.append) == 0
    assert any("t " in line and "2 partitions" in line for line in said)
    assert any("needs Apache Kafka 4.4" in line for line in said) == (version == "4.4.0")
    if not in_place:
        assert {p: p.read_bytes() for p in source.rglob("*") if p.is_file()} == before, "the source directory is unchanged"
    kafka = kafka_on(source if in_place else target, tmp_path / "home", version)
    try:
        world.broker = Wire(kafka)
        world.target = "kafka"
        assert {command: perform(world, command) for command in LOOKS} == seen
        # The same transactional id gets its next epoch, sequence numbers continue, and the open transaction can be committed.
        assert perform(world, "A = init done") == f"NONE {world.pid(world.actors['A'].pid)} e2"
        assert perform(world, "produce N t").startswith("NONE @")
        assert perform(world, "commit C").startswith("NONE")
        assert perform(world, "read t/1").endswith("c2 c3 c4")
        assert perform(world, "committed g t stable") == "9"
        given = {a.pid for a in world.actors.values()}
        perform(world, "Z = init")
        assert world.actors["Z"].pid not in given
        perform(world, "D = init again timeout=600000")
        assert perform(world, "produce D t n=2").startswith("NONE")
        answers = {command: perform(world, command) for command in LOOKS}
        world.forget_connection()
        kafka.stop() if stop == "stopped" else kafka.kill()
        assert audit(str(source if in_place else target)) == 0, "the audit accepts a directory that Apache Kafka has changed"
        come_back(world, source if in_place else target, tmp_path / "back", answers)
    finally:
        world.close()
        kafka.stop()


def come_back(world: World, kafka_dir: Path, directory: Path, answers: dict[str, str]) -> None:
    """Adopt the directory from Apache Kafka back into ottla while a transaction is open."""
    assert adopt(str(kafka_dir), str(directory), []) == 0
    with Broker(data_dir=directory) as broker:
        world.broker, world.target = Wire(broker), "ottla"
        world.forget_connection()
        assert {command: perform(world, command) for command in LOOKS} == answers
        assert perform(world, "describe again").startswith("Ongoing")
        assert perform(world, "commit D").startswith("NONE")
        assert perform(world, "read t").endswith("d1 d2")
        given = {a.pid for a in world.actors.values()}
        perform(world, "Y = init")
        assert world.actors["Y"].pid not in given
        assert not [line for line in broker.logs if '"level": "error"' in line]
        world.forget_connection()


LIVING = (
    "topic lt partitions=2",
    "M = beat modern topics=lt",
    "M = beat modern owned=all",
    "P = init piped",
    "S = stream streaming reads=lt",
    "S = stream streaming owned=all",
    "group_config sharing share.auto.offset.reset=earliest",
    "H = share sharing topics=lt",
    "H = share sharing",
    "N = init",
    "produce N lt n=4",
    "acquire H sharing lt",
    "acknowledge H sharing lt 0-1:accept 2:release",
)
"""Commands that create a consumer group, a streams group and a share group with one member each, and acknowledge some records of a
share partition."""
SETTINGS = {name: value for set_up in ("consumers", "streams", "shares") for name, value in SET_UPS[set_up].settings.items()}
MEMBERS = ("consumers modern", "streams streaming", "shares sharing")


@pytest.mark.full
def test_members_of_active_groups_continue_after_handover_to_apache_kafka(tmp_path: Path) -> None:
    """Apache Kafka reads the group records of ottla (KIP-848, KIP-1071, KIP-932), so members continue with their member epochs."""
    directory = tmp_path / "ottla"
    broker = Broker(data_dir=directory, settings=SETTINGS).start()
    world = World(Wire(broker), "ottla", "")
    for command in LIVING:
        answer = perform(world, command)
        assert answer == "" or answer.startswith("NONE"), f"{command}: {answer}"
    before = {command: perform(world, command) for command in MEMBERS}
    world.forget_connection()
    broker.stop()
    assert graduate(str(directory), None, dry_run=False, in_place=True, features={}, say=lambda line: None) == 0
    kafka = ApacheKafka(tmp_path / "home", log_dir=directory, settings=SETTINGS).start()
    try:
        world.broker, world.target = Wire(kafka), "kafka"
        assert {command: perform(world, command) for command in MEMBERS} == before
        for command in ("M = beat modern", "S = stream streaming", "H = share sharing"):
            assert perform(world, command).startswith("NONE e"), command
        acquired = "NONE lt/0 2-3:2"
        world.until("H acquires its records", lambda: perform(world, "acquire H sharing lt session=0"), acquired.__eq__)
    finally:
        world.close()
        kafka.stop()


def test_partition_directory_without_metadata_is_handed_over_to_apache_kafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world, seen = live(tmp_path / "first")
    process = world.broker.process  # type: ignore[attr-defined]
    process.stop()
    (tmp_path / "first" / "t-0" / "partition.metadata").unlink()
    assert adopt(str(tmp_path / "first" / "t-0"), str(tmp_path / "second"), []) == 0
    assert "no cluster metadata" in capsys.readouterr().out
    assert adopt(str(tmp_path / "first"), str(tmp_path / "second"), ["u"]) == 0, (
        "the topics of a directory may be adopted one after another"
    )
    assert adopt(str(tmp_path / "first"), str(tmp_path / "second"), ["t"]) == 1
    assert "already has a topic t;" in capsys.readouterr().err
    assert adopt(str(tmp_path / "first"), str(tmp_path / "third"), ["ghost"]) == 1
    assert "no partition of ghost" in capsys.readouterr().err
    with Broker(data_dir=tmp_path / "second") as broker:
        world.broker = Wire(broker)
        world.forget_connection()
        for command in ("ends t", "read t", "ends u", "read u"):
            assert perform(world, command) == seen[command]
        world.close()


def test_graduate_command_reports_data_that_cannot_be_handed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "ottla", tmp_path / "kafka"
    (tmp_path / "nothing").mkdir()
    assert graduate(str(tmp_path / "nothing"), str(target), dry_run=False, in_place=False) == 1
    assert "no meta.properties" in capsys.readouterr().err
    with Broker(data_dir=source) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in ("topic t segment.bytes=1048576", "N = init", *["produce N t size=700000"] * 3):
            perform(world, command)
        world.close()
        assert graduate(str(source), str(target), dry_run=False, in_place=False) == 1
        assert "in use" in capsys.readouterr().err
    assert graduate(str(source), None, dry_run=True, in_place=False) == 0
    assert "dry run" in capsys.readouterr().out
    assert not target.exists()
    damaged = sorted((source / "t-0").glob("*.log"))[0]
    sound = damaged.read_bytes()
    damaged.write_bytes(sound[:1_000] + bytes([sound[1_000] ^ 1]) + sound[1_001:])
    assert graduate(str(source), str(target), dry_run=False, in_place=False) == 1
    errors = capsys.readouterr().err
    assert damaged.name in errors
    assert "offset 0" in errors
    assert not target.exists()
    damaged.write_bytes(sound)
    target.mkdir()
    (target / "something").touch()
    assert graduate(str(source), str(target), dry_run=False, in_place=False) == 1
    assert "not empty" in capsys.readouterr().err
