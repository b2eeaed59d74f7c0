"""A job that is stopped while it starts or during a batch leaves no transaction open that blocks readers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla import Broker
from ottla.client.security.client_config import Connecting
from ottla.pipeline.generate import Workload, purchases
from ottla.pipeline.schemas import INVOICES, PURCHASES
from ottla.pipeline.topics import create, fill
from ottla.spark.cluster.client import cluster_client
from ottla.spark.sink.transaction import ONGOING, state_of
from tests.support import quick_java

pytestmark = [pytest.mark.full, pytest.mark.wire]

ROWS = {"tasks": 150_000, "driver": 50_000}
"""Number of purchases: a single batch of all of them is still being written when the signal arrives."""
STARTS_WITHIN_S, ENDS_WITHIN_S = 900, 300
"""Limits for a job that hangs. Spark alone takes 45 s to start on a slow machine."""


def started(command: list[str], output: Path) -> subprocess.Popen[bytes]:
    """Start a job that writes into a file: the job would block on a pipe that is full and not read."""
    with output.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=output.parent)


def wait_for_transaction(broker: Broker, job: subprocess.Popen[bytes], output: Path) -> None:
    """Wait until the job has begun its transaction. Fails with the job's output if the job ends before that."""

    def has_begun() -> bool:
        assert job.poll() is None, output.read_text()
        return broker.describe_transaction("shop").state == "Ongoing"

    try:
        broker.wait_for(has_begun, STARTS_WITHIN_S)
    except TimeoutError as error:
        raise AssertionError(f"{error}\n{output.read_text()}") from None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("sink", ["tasks", "driver"])
def test_stopped_spark_job_leaves_no_transaction_open(sink: str, number: signal.Signals, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        create(broker.bootstrap, (PURCHASES, INVOICES, "shipments", "dead-letters"), 2)
        fill(broker.bootstrap, PURCHASES, purchases(Workload(ROWS[sink])))
        command = [sys.executable, "-m", "ottla", "pipeline", "shop", "--bootstrap", broker.bootstrap, "--sink", sink]
        command += ["--checkpoint", str(tmp_path / "checkpoint"), "--batch-records", str(ROWS[sink])]
        output = tmp_path / "output"
        job = started(command, output)
        try:
            wait_for_transaction(broker, job, output)
            job.send_signal(number)
            job.wait(timeout=ENDS_WITHIN_S)
        finally:
            job.kill()
            job.wait()
        out = output.read_text()
        assert job.returncode == 128 + number, out
        assert f"stopped by {number.name}" in out
        assert broker.wait_for(lambda: broker.describe_transaction("shop").state == "CompleteAbort")
        assert broker.records(INVOICES) == []
        assert len(broker.records(INVOICES, "aborted")) > 0


def jvm_of(job: subprocess.Popen[bytes]) -> int:
    """Return the process id of Spark's JVM, which is a child of the job."""
    children = " ".join(path.read_text() for path in Path(f"/proc/{job.pid}/task").glob("*/children")).split()
    (jvm,) = (int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "java\n")
    return jvm


def test_stopped_spark_job_with_a_dead_jvm_leaves_no_transaction_open(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        create(broker.bootstrap, (PURCHASES, INVOICES, "shipments", "dead-letters"), 2)
        fill(broker.bootstrap, PURCHASES, purchases(Workload(ROWS["tasks"])))
        command = [sys.executable, "-m", "ottla", "pipeline", "shop", "--bootstrap", broker.bootstrap]
        command += ["--checkpoint", str(tmp_path / "checkpoint"), "--batch-records", str(ROWS["tasks"])]
        output = tmp_path / "output"
        job = started(command, output)
        try:
            wait_for_transaction(broker, job, output)
            jvm = jvm_of(job)
            job.send_signal(signal.SIGTERM)
            os.kill(jvm, signal.SIGKILL)
            job.wait(timeout=ENDS_WITHIN_S)
        finally:
            job.kill()
            job.wait()
        out = output.read_text()
        assert job.returncode == 128 + signal.SIGTERM, out
        assert "stopped by SIGTERM" in out
        assert broker.wait_for(lambda: broker.describe_transaction("shop").state == "CompleteAbort")
        assert broker.records(INVOICES) == []


def has_children(group: int) -> bool:
    """Whether the process group's leader has a child process, which means that the job is starting Spark's JVM."""
    with contextlib.suppress(OSError):
        return bool(Path(f"/proc/{group}/task/{group}/children").read_text().split())
    return False


def has_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("point", ["jvm", "stream"])
def test_pipeline_job_stopped_while_starting_ends_without_traceback(point: str, number: signal.Signals, tmp_path: Path) -> None:
    """The signal arrives while Spark's JVM starts, or when the checkpoint exists and the first batch may be running."""
    checkpoint = tmp_path / "checkpoint"
    with Broker(data_dir=tmp_path / "data") as broker:
        create(broker.bootstrap, (PURCHASES, INVOICES, "shipments", "dead-letters"), 2)
        fill(broker.bootstrap, PURCHASES, purchases(Workload(1_000)))
        command = [sys.executable, "-m", "ottla", "pipeline", "shop", "--bootstrap", broker.bootstrap]
        command += ["--checkpoint", str(checkpoint)]
        job = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            start_new_session=True,
            env={**os.environ, **quick_java.environment()},
        )
        try:
            broker.wait_for(lambda: has_children(job.pid) if point == "jvm" else checkpoint.exists(), STARTS_WITHIN_S)
            job.send_signal(number)
            out, _ = job.communicate(timeout=ENDS_WITHIN_S)
            assert broker.wait_for(lambda: has_gone(job.pid), ENDS_WITHIN_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
        assert job.returncode == 128 + number, out
        assert f"stopped by {number.name}; no transaction is left open" in out
        assert "Traceback" not in out
        with contextlib.closing(cluster_client(Connecting(broker.bootstrap))) as cluster:
            assert state_of(cluster, "shop") not in ONGOING


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ["export", "audit"])
def test_export_and_audit_stopped_while_reading_end_without_traceback(name: str, number: signal.Signals, tmp_path: Path) -> None:
    """The signal arrives when the export has written its plan, or when the audit has a Spark session."""
    scratch, target = tmp_path / "scratch", tmp_path / "parquet"
    with Broker(data_dir=tmp_path / "data") as broker:
        create(broker.bootstrap, (PURCHASES, INVOICES, "shipments", "dead-letters"), 2)
        fill(broker.bootstrap, PURCHASES, purchases(Workload(100_000)))
        command = [sys.executable, "-m", "ottla", "pipeline", name, "--bootstrap", broker.bootstrap]
        command += [] if name == "audit" else ["--to", str(target), "--topic", PURCHASES, "--part-offsets", "1000"]
        job = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            start_new_session=True,
            env={**os.environ, **quick_java.environment(), "SPARK_LOCAL_DIRS": str(scratch)},
        )
        begun = scratch if name == "audit" else target
        try:
            broker.wait_for(lambda: any(begun.glob("_plan-*" if name == "export" else "blockmgr-*")), STARTS_WITHIN_S)
            job.send_signal(number)
            out, _ = job.communicate(timeout=ENDS_WITHIN_S)
            assert broker.wait_for(lambda: has_gone(job.pid), ENDS_WITHIN_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
        assert job.returncode == 128 + number, out
        assert f"stopped by {number.name}; no transaction is left open" in out
        assert "Traceback" not in out
