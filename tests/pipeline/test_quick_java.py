"""The archive of Spark's classes is optional: on a machine that is too slow to create it, tests run without it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.support import quick_java

pytestmark = pytest.mark.wire


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        yield process
        process.kill()


def test_incomplete_class_data_archive_of_a_slow_spark_driver_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, sleeper: subprocess.Popen[str]
) -> None:
    from tests.pipeline.kills.shopping import Shopping

    monkeypatch.setattr(quick_java, "ENDED_S", 0.1)
    monkeypatch.setattr(quick_java, "plain", dict)
    monkeypatch.setattr(Shopping, "start", lambda self: sleeper)
    archive = tmp_path / "a.jsa"
    archive.write_bytes(b"half")
    quick_java._archive_classes(archive, [])
    assert not archive.exists()
    assert sleeper.returncode == -9
    # An unclosed pipe would cause a ResourceWarning in a later test.
    assert sleeper.stdout is not None
    assert sleeper.stdout.closed
