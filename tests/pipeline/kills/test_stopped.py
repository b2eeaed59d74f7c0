"""A job that is told to end, in the middle of a batch: nobody waits for its transaction's time-out."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla import Broker
from ottla.pipeline.generate import Workload, purchases
from ottla.pipeline.schemas import INVOICES, PURCHASES
from ottla.pipeline.topics import create, fill

pytestmark = [pytest.mark.slow, pytest.mark.wire]

ROWS = {"tasks": 400_000, "driver": 100_000}
"""Enough that a batch of all of them is not over when the signal comes."""
STARTS_WITHIN_S = 240
ENDS_WITHIN_S = 60


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("sink", ["tasks", "driver"])
def test_a_job_that_is_stopped_leaves_no_transaction_open(sink: str, number: signal.Signals, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        create(broker.bootstrap, (PURCHASES, INVOICES, "shipments", "dead-letters"), 2)
        fill(broker.bootstrap, PURCHASES, purchases(Workload(ROWS[sink])))
        command = [sys.executable, "-m", "ottla", "pipeline", "shop", "--bootstrap", broker.bootstrap, "--sink", sink]
        command += ["--checkpoint", str(tmp_path / "checkpoint"), "--batch-records", str(ROWS[sink])]
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path)
        try:
            broker.wait_for(lambda: broker.transaction("shop").state == "Ongoing", STARTS_WITHIN_S)
            job.send_signal(number)
            out, _ = job.communicate(timeout=ENDS_WITHIN_S)
        finally:
            job.kill()
            job.communicate()
        assert job.returncode == 128 + number, out
        assert f"stopped by {number.name}" in out
        assert broker.wait_for(lambda: broker.transaction("shop").state == "CompleteAbort")
        assert broker.records(INVOICES) == []
        assert len(broker.records(INVOICES, "aborted")) > 0
