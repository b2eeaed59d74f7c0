"""Parsing of the sink's options, and the errors for invalid options."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.spark.errors import PipelineError
from ottla.spark.sink.options import parse_options
from ottla.spark.sink.transaction import TRANSACTION_TIMEOUT_MS

LEAST = {"kafka.bootstrap.servers": "h:1", "transactional.id": "shop"}


def test_unset_sink_options_have_defaults() -> None:
    options = parse_options(LEAST)
    assert (options.connecting.bootstrap, options.transactional_id, options.topic) == ("h:1", "shop", None)
    assert (options.compression, options.timeout_ms, options.writer) == ("lz4", TRANSACTION_TIMEOUT_MS, "tasks")
    assert options.run != parse_options(LEAST).run


def test_sink_accepts_option_names_of_spark_and_of_producers() -> None:
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
        ({"transactional.idd": "x"}, "the sink has no option 'transactional.idd'; did you mean 'transactional.id'?"),
        ({"kafka.zookeeper": "1"}, "the sink has no option 'kafka.zookeeper'; its options are compression.type, "),
        ({"kafka.ack": "all"}, "the sink has no option 'kafka.ack'; did you mean 'acks'?"),
        ({"transaction.timeout.ms": "9" * 5_000}, "not a number of milliseconds"),
        ({"kafka.compression.typ": "lz4"}, "did you mean 'compression.type'?"),
        ({"compression.type": "brotli"}, "option 'compression.type' is 'brotli'; it can be none, gzip, "),
        ({"kafka.transaction.timeout.ms": "soon"}, "option 'kafka.transaction.timeout.ms' is 'soon', not a number of"),
        ({"transaction.timeout.ms": "0"}, "not a number of milliseconds"),
        ({"transaction.timeout.ms": str(1 << 31)}, "not a number of milliseconds"),
        ({"topic": " "}, "option 'topic' is ' ', not a text"),
        ({"topic": ["t"]}, r"option 'topic' is \['t'\], not a text"),
        ({"writer": 5}, "option 'writer' is '5'; it can be tasks, driver"),
        ({"topic": "a", "topics": "b, c"}, "option 'topic' is 'a', which is not in the option 'topics'"),
        ({"topics": " , "}, "option 'topics' is ' , ', which is empty"),
        ({"run.id": "ü" * 101}, "option 'run.id' has 202 bytes; at most 200 are allowed"),
        ({7: "x"}, "the sink has no option 7"),
        ({"kafka.transaction.timeout.ms": 1.5}, "not a number of milliseconds"),
        ({"kafka.bootstrap.servers": "nowhere"}, "'nowhere' is not HOST:PORT"),
        ({"kafka.transactional.id": "other"}, "options 'transactional.id' and 'kafka.transactional.id' are the same option"),
        ({"kafka.bootstrap.servers": "http://h:1"}, "'http://h:1' is a URL or a path, not HOST:PORT"),
        ({"kafka.bootstrap.servers": "h:65536"}, "'65536' is not a port, 0 to 65535"),
        ({"kafka.bootstrap.servers": "h:0"}, "'h:0' has no port between"),
        ({"kafka.bootstrap.servers": "h:٣"}, "'٣' is not a port"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism is given, but kafka.security.protocol is PLAINTEXT"),
    ],
)
def test_invalid_sink_options_are_reported(given: dict[str, Any], says: str) -> None:
    with pytest.raises(PipelineError, match=says.replace("?", r"\?")):
        parse_options(LEAST | given)


@pytest.mark.parametrize("missing", LEAST)
def test_missing_sink_options_are_reported(missing: str) -> None:
    with pytest.raises(PipelineError, match=missing):
        parse_options({name: value for name, value in LEAST.items() if name != missing})


def test_sink_option_values_are_converted_like_in_spark() -> None:
    """A number is converted to text, and an option with the value None counts as unset."""
    options = parse_options(
        {**LEAST, "transactional.id": 7, "run.id": 12, "transaction.timeout.ms": 60_000, "topic": None, "writer": None}
    )
    assert (options.transactional_id, options.run, options.timeout_ms, options.topic) == ("7", "12", 60_000, None)
    assert options.writer == "tasks"


def test_topic_and_topics_options_of_the_sink_exclude_each_other() -> None:
    assert parse_options({**LEAST, "topic": "b", "topics": "a,b"}).topics == ("b",)
