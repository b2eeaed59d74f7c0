"""What the sink's options say, and what is said of those that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.spark.errors import PipelineError
from ottla.spark.options import parse_options
from ottla.spark.transaction import TRANSACTION_TIMEOUT_MS

LEAST = {"kafka.bootstrap.servers": "h:1", "transactional.id": "shop"}


def test_what_is_not_said() -> None:
    options = parse_options(LEAST)
    assert (options.connecting.bootstrap, options.transactional_id, options.topic) == ("h:1", "shop", None)
    assert (options.compression, options.timeout_ms, options.writer) == ("lz4", TRANSACTION_TIMEOUT_MS, "tasks")
    assert options.run != parse_options(LEAST).run


def test_what_is_said_in_the_words_of_spark_and_of_a_producer() -> None:
    options = parse_options(
        LEAST
        | {
            "topic": "t",
            "kafka.compression.type": "zstd",
            "Transaction.Timeout.Ms": "60000",
            "writer": "driver",
            "run.id": "r",
            "mark.topic": "m",
            "checkpointLocation": "cp",
        }
    )
    assert (options.topic, options.compression, options.timeout_ms) == ("t", "zstd", 60_000)
    assert (options.writer, options.run, options.mark_topic) == ("driver", "r", "m")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"transactional.idd": "x"}, "the sink has no option 'transactional.idd': is it 'transactional.id'?"),
        ({"kafka.acks": "1"}, "the sink has no option 'kafka.acks'; it has compression.type, "),
        ({"kafka.compression.typ": "lz4"}, "is it 'compression.type'?"),
        ({"compression.type": "brotli"}, "option 'compression.type' is 'brotli'; it can be none, gzip, "),
        ({"kafka.transaction.timeout.ms": "soon"}, "option 'kafka.transaction.timeout.ms' is 'soon', and not a number of"),
        ({"transaction.timeout.ms": "0"}, "not a number of milliseconds"),
        ({"transaction.timeout.ms": str(1 << 31)}, "not a number of milliseconds"),
        ({"topic": " "}, "option 'topic' is ' ', and not a text"),
        ({"topic": None}, "option 'topic' is None"),
        ({"kafka.bootstrap.servers": "nowhere"}, "'nowhere' is not host:port"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism is given, and kafka.security.protocol is PLAINTEXT"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(PipelineError, match=says.replace("?", r"\?")):
        parse_options(LEAST | given)


@pytest.mark.parametrize("missing", LEAST)
def test_what_is_missing_is_named(missing: str) -> None:
    with pytest.raises(PipelineError, match=missing):
        parse_options({name: value for name, value in LEAST.items() if name != missing})
