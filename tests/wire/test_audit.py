"""``ottla audit``: a transaction that lost its end is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla import Broker
from ottla.directories import NOT_WHOLE, audit
from protocol.records import batches
from tests.scenarios.brokers import Wire
from tests.scenarios.play import perform
from tests.scenarios.world import World

pytestmark = pytest.mark.wire


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A committed transaction over two partitions, and an open one."""
    with Broker(data_dir=tmp_path) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in (
            "topic t partitions=2",
            "A = init whole",
            "B = init open",
            "produce A t n=2",
            "produce A t/1",
            "offsets A g t=1",
            "commit A",
            "produce B t",
        ):
            perform(world, command)
        world.close()
    return tmp_path


def cut_last_batches(log: Path, count: int) -> None:
    """What a power cut may take."""
    raw = log.read_bytes()
    log.write_bytes(raw[: [at for at, _ in batches(raw)][-count]])


def test_a_sound_directory_is_told_so(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(str(directory)) == 0
    assert "1 decided transactions, 1 open: 0 not whole" in capsys.readouterr().out


def test_a_lost_marker_is_named(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log,) = (directory / "t-1").glob("*.log")
    cut_last_batches(log, 1)
    assert audit(str(directory)) == NOT_WHOLE
    out = capsys.readouterr().out
    assert "whole (producer 0, epoch 1) was committed, and t-1 has no marker of it" in out
    assert "t-1: a transaction of producer 0 is open since offset 0" in out


def test_a_lost_decision_leaves_a_hanging_transaction(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for log in directory.glob("__transaction_state-*/*.log"):
        log.unlink()
    assert audit(str(directory)) == NOT_WHOLE
    assert "t-0: a transaction of producer 1 is open since offset 3, and no coordinator knows" in capsys.readouterr().out


def test_what_is_no_data_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(str(tmp_path)) == 1
    assert "holds no partitions" in capsys.readouterr().err
