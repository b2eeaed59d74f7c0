"""Load from confluent-kafka in its own process; prints one JSON line.

``python -m benchmarks.confluent_load BOOTSTRAP produce TOPIC COUNT SIZE``, ``... consume TOPIC COUNT 0``, ``... transactions TOPIC
PRODUCERS WARM_UP_S RUN_S``.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time

from confluent_kafka import Consumer, Producer

CALL_TIMEOUT_S = 30.0


def produce(bootstrap: str, topic: str, count: int, size_bytes: int) -> dict[str, float]:
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 500_000, "linger.ms": 5})
    value = b"x" * size_bytes
    started = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number & 1)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()
    return {"per_s": count / (time.perf_counter() - started)}


def consume(bootstrap: str, topic: str, count: int) -> dict[str, float]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{time.time_ns()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # By default the consumer stops fetching for a second when 100,000 messages are queued. That pause must not be measured.
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.subscribe([topic])
    seen, started = 0, 0.0
    while seen < count:
        messages = consumer.consume(1_000, 0.01)
        if messages and not started:
            started = time.perf_counter()
        seen += len(messages)
    elapsed = time.perf_counter() - started
    consumer.close()
    return {"per_s": count / elapsed}


def _run_producer(
    bootstrap: str, topic: str, number: int, begin: float, end: float, results: multiprocessing.Queue[list[float]]
) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-rd-{number}", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(CALL_TIMEOUT_S)
    commits: list[float] = []
    value = b"x" * 100
    while time.time() < end:
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.produce(topic, value, partition=1)
        producer.flush(CALL_TIMEOUT_S)
        before = time.time()
        producer.commit_transaction(CALL_TIMEOUT_S)
        after = time.time()
        if before >= begin and after < end:
            commits.append((after - before) * 1000)
    results.put(commits)


def transactions(bootstrap: str, topic: str, producers: int, warm_up_s: float, run_s: float) -> dict[str, float]:
    results: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
    begin = time.time() + 1.0 + warm_up_s
    workers = [
        multiprocessing.Process(target=_run_producer, args=(bootstrap, topic, n, begin, begin + run_s, results))
        for n in range(producers)
    ]
    for worker in workers:
        worker.start()
    commits = sorted(c for _ in workers for c in results.get(timeout=run_s + warm_up_s + 60))
    for worker in workers:
        worker.join()
    return {"per_s": len(commits) / run_s, "p50": commits[len(commits) // 2], "p99": commits[int(len(commits) * 0.99)]}


def main() -> None:
    bootstrap, what, topic, *rest = sys.argv[1:]
    if what == "produce":
        result = produce(bootstrap, topic, int(rest[0]), int(rest[1]))
    elif what == "consume":
        result = consume(bootstrap, topic, int(rest[0]))
    else:
        result = transactions(bootstrap, topic, int(rest[0]), float(rest[1]), float(rest[2]))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
