"""Tests with deleted checkpoints, recreated topics, two drivers at once, signals in each phase, and a broker restart in a batch."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from shop.chaos import as_toml
from shop.cluster import kill, own
from shop.running import run
from shop.schemas import CLEAN_ORDERS, DEAD_LETTERS, ORDERS, RECEIPTS
from shop.settings import Settings
from shop.topics import create
from test_end_to_end import NOW_MS, ids, sent
from test_jobs import order

from ottla import Broker
from ottla.client import ClientError
from ottla.spark import PipelineError

pytestmark = [pytest.mark.ottla(fresh=True), pytest.mark.usefixtures("spark")]

WAIT_S = 240.0
COUNT = 200
TWO_DRIVERS = ("another process runs this stream", "Multiple streaming jobs detected")
"""Errors of the sink and of Spark for a driver whose checkpoint another driver also uses."""


@pytest.fixture
def deployed(ottla: Broker, settings: Settings, tmp_path: Path) -> Settings:
    """Return the settings of a deployment with orders in small batches."""
    deployed = replace(
        settings, bootstrap=ottla.bootstrap, checkpoints=str(tmp_path / "checkpoints"), partitions=1, batch_records=10
    )
    create(deployed)
    ottla.produce(ORDERS, [sent(order(number, at_ms=NOW_MS)) for number in range(COUNT)])
    return deployed


def once(settings: Settings) -> None:
    run(["distinct"], settings, say=lambda line: None)


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@contextmanager
def driver(settings: Settings, directory: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run ``python -m shop`` as a process of its own. Yields the process and its log."""
    (directory / "shop.toml").write_text(as_toml(settings))
    log = directory / f"driver-{len(list(directory.glob('driver-*')))}.log"
    command = [sys.executable, "-m", "shop", "--config", str(directory / "shop.toml"), *arguments]
    environment = {**own({}), "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
    try:
        yield process, log
    finally:
        kill(process)


def transactions_of(broker: Broker) -> set[str]:
    with broker.open_client() as cluster:
        return {one.state for one in cluster.transactions() if one.transactional_id.startswith("shop.")}


def test_deleted_checkpoint_is_refused_and_nothing_is_written_twice(ottla: Broker, deployed: Settings) -> None:
    deployed = replace(deployed, batch_records=COUNT)
    once(deployed)
    before = len(ottla.records(CLEAN_ORDERS))
    shutil.rmtree(deployed.checkpoints)
    with pytest.raises(PipelineError, match="another checkpoint"):
        once(deployed)
    assert len(ottla.records(CLEAN_ORDERS)) == before == COUNT


def test_recreated_topic_is_refused(ottla: Broker, deployed: Settings) -> None:
    deployed = replace(deployed, batch_records=COUNT)
    once(deployed)
    ottla.delete_topic(ORDERS)
    create(deployed)
    ottla.produce(ORDERS, [sent(order(number, at_ms=NOW_MS)) for number in range(COUNT + 5)])
    with pytest.raises(PipelineError, match="deleted and created again"):
        once(deployed)
    assert len(ottla.records(CLEAN_ORDERS)) == COUNT


def test_restart_of_the_broker_in_a_batch_loses_nothing(ottla: Broker, deployed: Settings) -> None:
    """After the restart the stream continues, or ends with an error and continues when it is started again."""

    def restart() -> None:
        with suppress(ClientError):
            until(lambda: len(ottla.records(RECEIPTS)) > 2, "no batch was committed")
        ottla.restart(kill=True)

    thread = threading.Thread(target=restart)
    thread.start()
    with suppress(PipelineError):
        once(deployed)
    thread.join()
    once(deployed)
    assert ids(ottla, CLEAN_ORDERS) == sorted(f"o-{number}" for number in range(COUNT))


def test_second_driver_fences_the_first(ottla: Broker, deployed: Settings, tmp_path: Path) -> None:
    with driver(deployed, tmp_path, "run", "distinct", "--forever") as (first, log):
        until(lambda: len(ottla.records(RECEIPTS)) > 0 or first.poll() is not None, "no batch was committed")
        assert first.poll() is None, log.read_text()
        number = COUNT

        def take_over() -> bool:
            """Run the job in a second driver. The sink or Spark refuses it if the first has just written the same batch."""
            nonlocal number
            ottla.produce(ORDERS, [sent(order(number, at_ms=NOW_MS))])
            number += 1
            try:
                once(deployed)
            except PipelineError as error:
                assert any(reason in str(error) for reason in TWO_DRIVERS), error
            return first.poll() is not None

        until(take_over, "the second driver did not end the first")
        assert first.wait(WAIT_S) == 1, log.read_text()
        assert log.read_text().splitlines()[-1].startswith("shop: distinct: ")
    once(deployed)
    assert ids(ottla, CLEAN_ORDERS) == sorted(f"o-{known}" for known in range(number))


PHASES: dict[str, Callable[[Broker, int], bool]] = {
    "imports": lambda broker, pid: True,
    "JVM": lambda broker, pid: bool(_children(pid)),
    "batches": lambda broker, pid: len(broker.records(RECEIPTS)) > 1,
}


@pytest.mark.parametrize("phase", PHASES)
def test_interrupt_ends_the_driver_and_leaves_no_transaction(ottla: Broker, deployed: Settings, tmp_path: Path, phase: str) -> None:
    with driver(deployed, tmp_path, "run", "distinct") as (process, log):
        until(lambda: PHASES[phase](ottla, process.pid) or process.poll() is not None, log.read_text())
        assert process.poll() is None, log.read_text()
        # Send SIGINT to the whole process group, including Spark's JVM, as a terminal does.
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(WAIT_S)
        # If the signal comes before the program handles signals, Python ends with a traceback or by the signal.
        assert code == 130 or (phase == "imports" and code in (-signal.SIGINT, 1)), log.read_text()
        assert phase == "imports" or log.read_text().splitlines()[-1].startswith("shop: stopped by SIGINT"), log.read_text()
    assert transactions_of(ottla) <= {"CompleteAbort", "CompleteCommit", "Empty"}
    once(replace(deployed, batch_records=COUNT))
    assert ids(ottla, CLEAN_ORDERS) == sorted(f"o-{number}" for number in range(COUNT))


def _children(pid: int) -> list[str]:
    listed = subprocess.run(["ps", "-A", "-o", "ppid=,command="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.split(maxsplit=1)[0] == str(pid) and "java" in line]


def test_poison_does_not_stop_a_job(ottla: Broker, settings: Settings, tmp_path: Path) -> None:
    deployed = replace(settings, bootstrap=ottla.bootstrap, checkpoints=str(tmp_path / "checkpoints"), partitions=1)
    create(deployed)
    poison = [b"", b"{", b"\xff", b"null", b"[]", b'{"id": 1}', b'{"a":' * 500, b"9" * 5_000, b"x" * 900_000]
    large = order(2, customer="x" * 1_000_000)
    ottla.produce(ORDERS, [*(sent(value) for value in poison), sent(large), sent(order(1))])
    once(deployed)
    assert ids(ottla, CLEAN_ORDERS) == ["o-1"]
    assert len(ottla.records(DEAD_LETTERS)) == len(poison) + 1
