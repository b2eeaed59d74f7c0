"""The dashboard: every query has series with a broker under load, and its files refer to each other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from prometheus_client.parser import text_string_to_metric_families

from ottla import Broker
from ottla.cli import main
from tests.examples.reading import EXAMPLES, document
from tests.support.waiting import wait_until
from tools.kafka import free_port

FOLDER = EXAMPLES / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboards/ottla.json").read_text())
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
QUERIES = [text.replace("$__rate_interval", "1m").replace("$__range", "1m") for text in EXPRESSIONS]
"""The expressions as Grafana sends them for a range of one minute."""
FUNCTIONS = frozenset({"sum", "max", "rate", "increase", "topk", "histogram_quantile", "clamp_min"})
QUOTAS = ("producer_byte_rate=1000000", "consumer_byte_rate=1000000", "request_percentage=1000")
ORDERS = 20
TIMEOUT_S = 60


def written(bootstrap: str, transactional_id: str) -> Producer:
    """Write a record in a new transaction, and return the producer without ending the transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "app", "transactional.id": transactional_id})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("orders", b"order")
    producer.flush(TIMEOUT_S)
    return producer


def commit_and_abort(bootstrap: str) -> None:
    for number in range(ORDERS):
        producer = written(bootstrap, "orders")
        (producer.commit_transaction if number % 2 else producer.abort_transaction)(TIMEOUT_S)


def fence(bootstrap: str) -> None:
    zombie = written(bootstrap, "fenced")
    written(bootstrap, "fenced").commit_transaction(TIMEOUT_S)
    with pytest.raises(KafkaException):
        zombie.commit_transaction(TIMEOUT_S)


def read_committed(bootstrap: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "client.id": "app", "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    try:
        assert len(consumer.consume(ORDERS // 2, TIMEOUT_S)) == ORDERS // 2
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def loaded() -> Iterator[Broker]:
    settings = {"ottla.metrics.port": 0, "num.partitions": 1}
    with Broker(settings=settings) as broker:
        assert main(["quota", "set", "--client-id", "app", *QUOTAS, "--bootstrap", broker.bootstrap]) == 0
        commit_and_abort(broker.bootstrap)
        fence(broker.bootstrap)
        read_committed(broker.bootstrap)
        # The last transaction stays open.
        producer = written(broker.bootstrap, "open")
        yield broker
        producer.abort_transaction(TIMEOUT_S)


def selected(expression: str) -> dict[str, set[str]]:
    """Return the metrics of an expression, with the labels by which it selects or groups their series.

    Of nested aggregations only the innermost one groups the series of the metric.
    """
    metrics: dict[str, set[str]] = {}
    grouped: list[set[str]] = []
    """Labels of the aggregations whose parentheses are open; a parenthesis without an aggregation repeats the outer labels."""
    rest = re.sub(r"\[[^]]*\]|\b(on|group_right) \([^)]*\)", "", re.sub(r'"[^"]*"', '""', expression))
    for by, opened, closed, name, matchers in re.findall(
        r"\bby \(([^)]*)\) \(|(\()|(\))|\b([a-z_][a-z0-9_]*)\b(?! *\()(?! by )(?:\{([^}]*)\})?", rest
    ):
        if by:
            grouped.append({*by.split(", ")})
        elif opened:
            grouped.append(grouped[-1] if grouped else set())
        elif closed:
            grouped.pop()
        else:
            metrics[name] = (grouped[-1] if grouped else set()) | {*re.findall(r"(\w+)[=!]", matchers)}
    return metrics


def test_metrics_and_labels_are_extracted_from_promql_expressions() -> None:
    expression = 'histogram_quantile(0.5, sum by (le, a) (rate(m_bucket{b!="c"}[5m]))) / max(n)'
    assert selected(expression) == {"m_bucket": {"le", "a", "b"}, "n": set()}
    joined = "sum by (a) (clamp_min(max by (a, b) (m) - on (b) group_right () max by (b, c) (n), 0))"
    assert selected(joined) == {"m": {"a", "b"}, "n": {"b", "c"}}


def test_grafana_panels_have_unique_titles_and_positions_and_a_question_as_description() -> None:
    panels = DASHBOARD["panels"]
    assert len(panels) >= 12
    assert all(panel["description"].count("?") == 1 for panel in panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    assert {
        function for text in EXPRESSIONS for function in re.findall(r"(\w+) *\(", re.sub(r"\b(by|on|group_right) \(", "", text))
    } <= (FUNCTIONS | {"by"})


def test_provisioned_grafana_files_refer_to_existing_files() -> None:
    services = document("grafana/compose.yaml")["services"]
    (source,) = document("grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090" and "127.0.0.1:9090:9090" in services["prometheus"]["ports"]
    targets = [target for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert {one["datasource"]["uid"] for one in [*targets, *DASHBOARD["panels"]]} == {source["uid"]}
    (provider,) = document("grafana/provisioning/dashboards/ottla.yml")["providers"]
    mounted = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"] + services["prometheus"]["volumes"])
    assert mounted["./dashboards"] == provider["options"]["path"]
    assert all((FOLDER / path).exists() for path in mounted)
    (scraped,) = document("grafana/prometheus.yml")["scrape_configs"]
    port = services["kafka"]["environment"]["KAFKA_OTTLA_METRICS_PORT"]
    assert scraped["static_configs"] == [{"targets": [f"kafka:{port}"]}]


def scraped(broker: Broker) -> str:
    with urllib.request.urlopen(broker.ready["metrics"]) as response:
        text: str = response.read().decode()
    return text


@pytest.mark.wire
def test_each_grafana_query_selects_existing_metrics_and_labels_of_the_broker(loaded: Broker) -> None:
    # Prometheus adds the label "instance" to all series.
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(scraped(loaded)):
        for sample in family.samples:
            labels.setdefault(sample.name, {"instance"}).update(sample.labels)
    for expression in EXPRESSIONS:
        wanted = selected(expression)
        assert wanted, expression
        for metric, own in wanted.items():
            assert own <= labels.get(metric, set()), f"{expression}: the broker has no {metric} with {own}"


def series(address: str, query: str) -> list[Any]:
    """Return Prometheus's response to a query, or nothing until it listens. Raises AssertionError if it refuses the query."""
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/query?query={quote(query)}", timeout=TIMEOUT_S) as response:
            result: list[Any] = json.load(response)["data"]["result"]
            return result
    except urllib.error.HTTPError as refused:
        assert refused.code == 503, f"{query}: {refused.read().decode()}"
    except OSError:
        pass
    return []


@pytest.mark.wire
def test_each_grafana_query_returns_series_from_prometheus(loaded: Broker, tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus on the PATH")
    config = (FOLDER / "prometheus.yml").read_text().replace("kafka:9404", loaded.ready["metrics"].split("/")[2])
    (tmp_path / "prometheus.yml").write_text(config.replace("scrape_interval: 5s", "scrape_interval: 1s"))
    address = f"127.0.0.1:{free_port()}"
    options = [
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address={address}",
    ]
    missing = {*QUERIES}

    def all_return_series() -> bool:
        assert process.poll() is None, (tmp_path / "log").read_text()
        missing.difference_update([query for query in missing if series(address, query)])
        return not missing

    with (tmp_path / "log").open("w") as log, subprocess.Popen([program, *options], stdout=log, stderr=log) as process:
        try:
            wait_until(all_return_series)
        finally:
            process.kill()
            print(f"queries without series: {missing}")
