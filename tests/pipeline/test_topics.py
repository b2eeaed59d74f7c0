"""The shop's topics on a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from ottla import Broker
from ottla.cli import main
from ottla.client.admin.offsets import ranges
from ottla.client.security.client_config import Connecting
from ottla.pipeline.generate import Workload, purchases
from ottla.pipeline.topics import create, fill
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import PipelineError

pytestmark = pytest.mark.wire


def test_purchases_with_old_timestamps_are_kept(tmp_path: Path) -> None:
    """Retention uses the records' timestamps, which are old in generated purchases."""
    settings = {"log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "100"}
    with Broker(data_dir=tmp_path, settings=settings) as broker:
        assert create(broker.bootstrap, ("purchases",), 2) == ["purchases"]
        assert create(broker.bootstrap, ("purchases",), 2) == []
        fill(broker.bootstrap, "purchases", purchases(Workload(100)))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        (description,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "purchases")]).values()
        assert description.result(60)["retention.ms"].value == "-1"
        assert sum(end - start for start, end in ranges(cluster_client(Connecting(broker.bootstrap)), "purchases").values()) == 100


def test_pipeline_reports_an_unreachable_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.pipeline.topics.TIMEOUT_S", 0.5)
    with pytest.raises(PipelineError, match=r"creating topics at 127\.0\.0\.1:1"):
        create("127.0.0.1:1", ("purchases",), 2)


def test_pipeline_job_uses_the_broker_of_ottla_bootstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(data_dir=tmp_path) as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
        assert main(["pipeline", "generate", "--rows", "20", "--source-topic", "bought"]) == 0
        assert len(broker.records("bought")) == 20
