"""Files next to the logs, damaged while a broker was stopped, are rebuilt or refused, or take the partition offline.

Each kind of damage is logged. Responses stay the same, except for KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache

import pytest
from structlog.testing import capture_logs

from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.checkpoints import RECOVERY_POINTS
from ottla.storage.identity import DirectoryError
from tests.scenarios.play import perform
from tests.scenarios.world import World

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
CONFIGS = "internal.segment.bytes=1500 index.interval.bytes=100 file.delete.delay.ms=1"
OFFLINE = "KAFKA_STORAGE_ERROR"
NOT_READ = (".kafka_cleanshutdown", "replication-offset-checkpoint", "ottla-aborted-checkpoint")
"""Files whose content no start depends on. ottla-aborted-checkpoint only reports damage to other files."""


def perform_all(broker: SimulatedBroker, *commands: str) -> list[str]:
    world = World(broker, "ottla", "")
    answers = [str(perform(world, command)) for command in commands]
    world.close()
    return answers


@cache
def closed() -> tuple[Mapping[str, bytes], list[str]]:
    """Return the files of a clean stop, and the responses of a broker that starts on them."""
    broker = SimulatedBroker(SETTINGS).start()
    story = []
    for round_number in range(12):
        end = "abort" if round_number % 3 == 0 else "commit"
        story += [f"produce A t n=3 size={20 * round_number}", f"offsets A g t={round_number}", f"{end} A", "wait 10"]
    perform_all(broker, f"topic t partitions=1 {CONFIGS}", "A = init x", *story)
    perform_all(broker, "topic u partitions=1", "B = init y", "produce B u n=5", "commit B", "delete_records u before=3")
    broker.close()
    assert isinstance(broker.fs, MemoryFilesystem)
    files = {path: bytes(raw) for path, raw in broker.fs.files.items()}
    broker = SimulatedBroker(SETTINGS, fs=MemoryFilesystem(files)).start()
    answers = view(broker)
    broker.close()
    return files, answers


def view(broker: SimulatedBroker) -> list[str]:
    log = broker.broker.partitions.get("t", 0).log
    first_ms = min((s.first_timestamp_ms for s in log.segments), default=0)
    questions = ["ends t", "read t", "walk t", "committed g t", "describe x", "list_offsets t at=-3", "ends u"]
    questions += [f"fetch t from={offset} max=1" for offset in range(0, 60, 2)]
    questions += [f"list_offsets t at={first_ms + after}" for after in range(0, 130, 7)]
    answers = perform_all(broker, *questions)
    producers = {p: (e.epoch, e.last_sequence, e.txn_first_offset) for p, e in log.producers.entries.items()}
    return [*answers, OFFLINE if log.is_offline else repr((log.epochs.entries, producers))]


def empty(raw: bytes, _: random.Random) -> bytes:
    return b""


def cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[: len(raw) // 2]


def flip(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    changed[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def huge(raw: bytes, rng: random.Random) -> bytes:
    """Overwrite eight bytes with 0x7f or, in a text file, replace the last number with eighteen nines."""
    if raw[-1:] == b"\n":
        lines = raw.split(b"\n")
        return b"\n".join([*lines[:-2], lines[-2].rpartition(b" ")[0] + b" " + b"9" * 18, b""])
    at = rng.randrange(max(len(raw) - 8, 1))
    return raw[:at] + b"\x7f" * 8 + raw[at + 8 :]


def garbage(raw: bytes, rng: random.Random) -> bytes:
    return rng.randbytes(max(len(raw), 40))


def paths() -> list[str]:
    return [p for p, raw in sorted(closed()[0].items()) if raw and not p.endswith(".log") and ("/t-0/" in p or p.count("/") == 2)]


def is_needed(path: str) -> bool:
    """Whether a start reads the file. Only the newest of the producer snapshots is read."""
    newest = max(p for p in closed()[0] if "/t-0/" in p and p.endswith(".snapshot"))
    return not path.endswith(NOT_READ) and (path == newest or not path.endswith(".snapshot"))


@pytest.mark.heavy
@pytest.mark.entry("STO-06", "STO-07", "STO-11", "STO-13")
@pytest.mark.parametrize("harm", [empty, cut, pytest.param(flip, marks=pytest.mark.full), huge, garbage])
def test_damaged_file_other_than_a_log_segment_never_changes_a_response(harm: Callable[[bytes, random.Random], bytes]) -> None:
    files, healthy = closed()
    for path in paths():
        for seed in range(12 if harm is flip else 2):
            # A changed digit cannot be detected in a number or a name that is recorded nowhere else.
            if harm is flip and path.endswith(("log-start-offset-checkpoint", "meta.properties")):
                continue
            fs = MemoryFilesystem(files)
            fs.write_file(path, harm(files[path], random.Random(seed)))
            check(fs, path, healthy, f"{path} {harm.__name__} {seed}", is_told=harm in (empty, garbage) and is_needed(path))


def check(fs: MemoryFilesystem, path: str, healthy: list[str], case: str, *, is_told: bool) -> None:
    broker = SimulatedBroker(SETTINGS, fs=fs)
    with capture_logs() as lines:
        try:
            broker.start()
        except DirectoryError as error:
            assert path in str(error) or path.endswith(RECOVERY_POINTS), f"{case}: {error}"
            return
        answers = view(broker)
    events = {line["event"] for line in lines if line["log_level"] in ("warning", "error")}
    assert events or not is_told, case
    for answer, right in zip(answers, healthy, strict=True):
        if path.endswith("log-start-offset-checkpoint"):
            # Without log start offsets, deleted records become visible again, which the broker logs.
            assert answer == right or events & {"checkpoint_ignored", "log_rebuilt"}, case
        elif answer != right:
            # A read returns records up to the damage.
            assert answer in (OFFLINE, "NOT_COORDINATOR", "nothing") or right.startswith(answer), case
            assert "partition_went_offline" in events, case
    broker.close()
    assert broker.bugs == 0, case


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_wrong_index_file_takes_the_partition_offline_until_it_is_removed(suffix: str) -> None:
    files, healthy = closed()
    path = f"{DATA_DIR}/t-0/{0:020d}{suffix}"
    fs = MemoryFilesystem(files)
    raw = bytearray(files[path])
    raw[7] ^= 1
    fs.write_file(path, raw)
    broker = SimulatedBroker(SETTINGS, fs=fs).start()
    with capture_logs() as lines:
        assert OFFLINE in view(broker)
    (line,) = lines
    assert line["reason"].startswith(path)
    assert line["reason"].endswith("points to a wrong position; remove the index file, and the next start rebuilds it")
    broker.stop()
    fs.unlink(path)
    with capture_logs() as lines:
        broker.start()
    assert [line["rebuilt"] for line in lines if line["event"] == "log_rebuilt"] == [[f"the indexes of {0:020d}.log"]]
    assert view(broker) == healthy
    broker.close()
