"""Creates the topics of a job, and fills a topic with a stock producer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.pipeline.generate import Generated
from ottla.spark.errors import PipelineError

TIMEOUT_S = 30
QUEUE_RECORDS = 500_000


def create(bootstrap: str, topics: Sequence[str], partitions: int) -> list[str]:
    """Create the missing topics and return their names. Raises `PipelineError`."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        known = admin.list_topics(timeout=TIMEOUT_S).topics
        missing = [t for t in topics if t not in known]
        # Records have the purchases' event times as timestamps, so a retention time could delete them at once.
        new = [NewTopic(topic, partitions, 1, config={"retention.ms": "-1"}) for topic in missing]
        for future in admin.create_topics(new).values() if missing else ():
            future.result(TIMEOUT_S)
    except KafkaException as error:
        raise PipelineError(f"creating topics at {bootstrap}: {error.args[0].str()}") from error
    return missing


def fill(bootstrap: str, topic: str, rows: Iterable[Generated]) -> None:
    """Write the rows in order, each once. Raises `PipelineError`."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "queue.buffering.max.messages": QUEUE_RECORDS,
            "log_level": 0,
        }
    )
    failed: list[str] = []

    def report(error: object, message: object) -> None:
        if error is not None:
            failed.append(str(error))

    for row in rows:
        while True:
            with suppress(BufferError):
                producer.produce(topic, row.value, row.key, timestamp=row.at_ms, on_delivery=report)
                break
            producer.poll(0.1)
    left = producer.flush(TIMEOUT_S)
    if left or failed:
        raise PipelineError(f"writing to {topic}: {failed[0] if failed else f'{left} records were not acknowledged in time'}")
