"""`write_once` in sessions that it does not support. Without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.spark.errors import PipelineError
from ottla.spark.sink.frames import write_once


def test_write_once_on_spark_connect_is_refused_before_any_request() -> None:
    frame: Any = SimpleNamespace(sparkSession=SimpleNamespace(session_id="connect"))
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "transactional.id": "frames", "topic": "out"}
    with pytest.raises(PipelineError, match=r"on Spark Connect write ottla\.spark\.arranged\(frame, options\) with write\.format"):
        write_once(frame, options, "2026-11-29")
