"""Producer options that users copy from Spark's own sink are accepted if ottla's sink fulfils them, else refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.spark.errors import PipelineError
from ottla.spark.sink import producer_options
from ottla.spark.sink.options import parse_options

LEAST = {"kafka.bootstrap.servers": "h:1", "transactional.id": "shop"}


@pytest.fixture(autouse=True)
def nothing_noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(producer_options, "_noted", set())
    yield


def test_tuning_options_of_a_producer_are_accepted() -> None:
    options = parse_options(
        LEAST
        | {
            "kafka.acks": "all",
            "kafka.enable.idempotence": True,
            "kafka.linger.ms": 20,
            "kafka.batch.size": "65536",
            "kafka.compression.type": "zstd",
            "kafka.max.in.flight.requests.per.connection": "5",
            "kafka.retries": str((1 << 31) - 1),
            "kafka.delivery.timeout.ms": None,
            "includeHeaders": "true",
            "acks": "-1",
        }
    )
    assert options == parse_options(LEAST | {"compression.type": "zstd", "run.id": options.run})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kafka.acks": "1"}, "option 'kafka.acks' is '1': with fewer acknowledgements than all, a committed record is lost"),
        ({"acks": 0}, "option 'acks' is '0': with fewer acknowledgements"),
        ({"kafka.enable.idempotence": False}, "'kafka.enable.idempotence' is 'false': without it a retry duplicates records"),
        ({"kafka.retries": "0"}, "without retries, each lost response aborts a batch"),
        ({"kafka.retries": "9" * 5_000}, "without retries"),
        ({"kafka.retries": "٣"}, "without retries"),
        ({"kafka.max.in.flight.requests.per.connection": "6"}, "with more than 5, a retry may duplicate records"),
        ({"kafka.partitioner.class": "org.acme.Mine"}, "names a class of Java, .* give the rows a column 'partition'"),
        ({"kafka.partitioner.ignore.keys": "true"}, "rows with a key go to the key's partition"),
        ({"kafka.interceptor.classes": "org.acme.Mine"}, "names a class of Java"),
        ({"kafka.value.serializer": "org.acme.Mine"}, "the column 'value' is text or bytes, .*; leave the option out$"),
        ({"kafka.transaction.two.phase.commit.enable": "true"}, "the sink itself decides when a transaction is committed"),
        ({"includeHeaders": "maybe"}, "option 'includeHeaders' is 'maybe': it is true or false"),
        ({"kafka.linger.ms": []}, r"option 'kafka.linger.ms' is \[\], not a text"),
    ],
)
def test_producer_options_that_break_exactly_once_are_refused_with_the_reason(given: dict[str, Any], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        parse_options(LEAST | given)


def test_producer_options_without_effect_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        parse_options(LEAST | {"kafka.Linger.ms": 5, "kafka.acks": "all", "buffer.memory": "1"})
        parse_options(LEAST | {"kafka.linger.ms": 5, "buffer.memory": "1"})
        parse_options(LEAST | {"kafka.linger.ms": 5, "kafka.batch.size": "1"})
    assert [message.partition(". ")[0].partition(": ")[2] for message in caplog.messages] == [
        "buffer.memory, kafka.Linger.ms",
        "kafka.batch.size",
    ]


def test_refused_producer_options_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PipelineError):
        parse_options({"kafka.bootstrap.servers": "h:1", "kafka.linger.ms": 5})
    assert caplog.messages == []
