"""The shop is run with spark-submit on a standalone cluster, as users start it, while its driver and its executors are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

import ottla.cli.submit
from ottla import Broker
from ottla.client.admin.offsets import ranges
from ottla.client.security.client_config import Connecting
from ottla.pipeline.generate import Workload
from ottla.pipeline.schemas import INVOICES
from ottla.spark.cluster.client import cluster_client
from ottla.spark.versions import packages_for
from tests.pipeline.kills.cluster import Cluster, executors, until
from tests.pipeline.kills.shopping import LIFE_S, Shopping
from tests.pipeline.kills.test_cluster import ATTACKS
from tests.support import quick_java
from tools import kafka

pytestmark = [pytest.mark.wire, pytest.mark.nightly, pytest.mark.long, pytest.mark.java, pytest.mark.entry("PIP-01")]

WORKLOAD = Workload(12_000, malformed_share=0.02)


def test_killed_spark_submit_job_resumes(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker, Cluster(tmp_path) as cluster:
        shopping = Shopping(broker.bootstrap, tmp_path / "checkpoint", WORKLOAD)
        shopping.open()
        flags = {"--master": cluster.url, "--packages": ",".join(packages_for(pyspark.__version__))}
        settings = {"spark.jars.ivy": str(kafka.cache_dir() / "ivy"), "spark.driver.host": "127.0.0.1", **ATTACKS}
        command = [str(quick_java.SPARK_HOME / "bin" / "spark-submit"), *(word for pair in flags.items() for word in pair)]
        command += [*quick_java.submitted(settings), ottla.cli.submit.__file__]
        command += ["shop", "--bootstrap", broker.bootstrap, "--checkpoint", str(shopping.checkpoint), "--batch-records", "1000"]
        own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        environment = {**os.environ, **quick_java.environment(), **own}
        wire = cluster_client(Connecting(broker.bootstrap))

        def written() -> int:
            return sum(end for _, end in ranges(wire, INVOICES).values())

        def live(kill: Callable[[subprocess.Popen[bytes]], None] | None) -> int:
            """Run the job until it ends, and return its exit code. ``kill`` is called when the job has written something."""
            before = written()
            with (tmp_path / "submit.log").open("a") as log:
                job = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
                try:
                    if kill is not None:
                        until(lambda: written() > before or job.poll() is not None, "nothing is written", 2 * LIFE_S)
                        assert job.poll() is None, (tmp_path / "submit.log").read_text()[-3_000:]
                        kill(job)
                    return job.wait(2 * LIFE_S)
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(job.pid, signal.SIGKILL)

        def kill_driver(job: subprocess.Popen[bytes]) -> None:
            os.killpg(job.pid, signal.SIGKILL)

        def kill_executors(job: subprocess.Popen[bytes]) -> None:
            for victim in executors():
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)

        assert live(kill_driver) == -signal.SIGKILL
        shopping.agreed_outputs()
        assert live(kill_executors) == 0, (tmp_path / "submit.log").read_text()[-3_000:]
        assert live(None) == 0
        wire.close()
        shopping.check_exactly_once()
