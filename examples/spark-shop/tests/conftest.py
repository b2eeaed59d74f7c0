"""A Spark session for all tests, and static frames like those of Spark's Kafka source."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from shop.inputs import Input, judged
from shop.running import started_session
from shop.settings import Settings

from ottla.spark.schemas.decoded_records import decoded

KAFKA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
NOW_MS = 1_700_000_000_000


def pytest_configure() -> None:
    # Restore SIGINT: a shell starts background commands with SIGINT ignored, and the tests' drivers would inherit this.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = started_session(Settings(name="shop-tests", cores=1))
    yield session
    session.stop()


@pytest.fixture
def settings() -> Settings:
    return Settings(cores=1, batch_records=30, watermark_minutes=30, window_minutes=60, pay_within_minutes=60)


@pytest.fixture
def kafka_rows(spark: SparkSession) -> Callable[..., DataFrame]:
    """Return a function that makes the rows of a topic from keys and values. A value that is not bytes becomes JSON."""

    def rows(topic: str, *records: tuple[str, Any]) -> DataFrame:
        at = datetime.fromtimestamp(NOW_MS / 1_000, UTC)
        made = [
            (key.encode(), value if isinstance(value, bytes) or value is None else json.dumps(value).encode(), topic, 0, n, at, [])
            for n, (key, value) in enumerate(records)
        ]
        return spark.createDataFrame(made, KAFKA)

    return rows


@pytest.fixture
def given(kafka_rows: Callable[..., DataFrame], settings: Settings) -> Callable[..., Input]:
    """Return a function that makes the input of a job from values."""

    def make(topic: str, schema: str, *values: Any) -> Input:
        return judged(decoded(kafka_rows(topic, *(("k", value) for value in values)), schema), settings)

    return make


def texts(rows: DataFrame) -> list[tuple[Any, ...]]:
    """Return topic, key, value and the headers' texts of rows for a sink."""
    made = (
        (
            row["topic"],
            bytes(row["key"] or b"").decode(),
            json.loads(row["value"]) if row["topic"] != "dead-letters" else bytes(row["value"] or b""),
            {header["key"]: bytes(header["value"]).decode() for header in row["headers"] or ()},
        )
        for row in rows.collect()
    )
    return sorted(made, key=repr)
