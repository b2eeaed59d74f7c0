"""An export of a topic that is deleted and recreated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.pipeline.jobs import export as exporting
from ottla.pipeline.jobs.export import ExportOptions, export
from ottla.spark.errors import PipelineError

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java, pytest.mark.entry("PIP-14")]


@pytest.mark.parametrize("reads_segments", [False, True])
@pytest.mark.parametrize("while_writing", [False, True])
def test_parquet_export_of_a_recreated_topic_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads_segments: bool, while_writing: bool
) -> None:
    """Without the check, the export would continue at the old topic's offsets, or mix in the new topic's records."""
    with Broker(data_dir=tmp_path / "data") as broker, KafkaClient(broker.bootstrap) as cluster:

        def create_topic(count: int) -> None:
            broker.create_topic("in", partitions=1)
            cluster.produce("in", [NewRecord(b"v")] * count)

        def create_again() -> None:
            cluster.delete_topic("in")
            create_topic(50)

        create_topic(10)
        options = ExportOptions(broker.bootstrap, "in", str(tmp_path / "export"), str(broker.data_dir) if reads_segments else None)
        if while_writing:
            write = exporting._write
            monkeypatch.setattr(exporting, "_write", lambda *given: (write(*given), create_again())[0])
        else:
            assert export(spark, options, lambda *numbers: None) == 10
            create_again()
        with pytest.raises(PipelineError, match="topic 'in' was deleted and created again since it was exported to"):
            export(spark, options, lambda *numbers: None)
    assert (Path(options.to) / "part=00000").exists() != while_writing
