"""One Spark session for all tests of a process: starting it takes longer than most of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import kafka


def java_home() -> str:
    return str(Path(kafka.java()).resolve().parent.parent)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from ottla.pipeline.session import session

    os.environ.setdefault("JAVA_HOME", java_home())
    # pyspark.testing brings pandas-on-Spark along, which warns without it.
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    spark = session("ottla-tests", master="local[2]", ivy_home=kafka.cache_dir() / "ivy")
    yield spark
    spark.stop()
