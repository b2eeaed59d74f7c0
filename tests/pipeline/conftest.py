"""One Spark session for all tests of a process: starting it takes longer than most of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tools import kafka


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from ottla.spark.session import session
    from tests.pipeline import quick_java

    # pyspark.testing brings pandas-on-Spark along, which warns without it.
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in quick_java.environment().items():
            patch.setenv(name, value)
        spark = session("ottla-tests", master="local[2]", ivy_home=kafka.cache_dir() / "ivy")
    yield spark
    spark.stop()
