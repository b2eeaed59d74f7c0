"""Writes docs/compatibility.md: the tested clients, and the results of the tests.

``make compatibility`` runs the tests, and passes the file that ``pytest --results FILE`` writes. Without this file (``make
generate``) figures and versions on the page stay, and everything else is generated again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from tools.kafka import KAFKA_VERSION, STREAMS_VERSION, TOOLS_VERSION

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "compatibility.md"
NO_TESTS = "–"


def _required(path: str, pattern: str) -> str:
    """Return the version that a dependency file of another language requires."""
    required = re.search(pattern, (ROOT / path).read_text())
    if required is None:
        raise ValueError(f"{path} has no {pattern}")
    return required[1]


def _librdkafka() -> str:
    import confluent_kafka

    return f"{version('confluent-kafka')} (librdkafka {confluent_kafka.libversion()[0]})"


CLIENTS: Mapping[str, Callable[[], str]] = {
    "Java": lambda: KAFKA_VERSION,
    "confluent-kafka": _librdkafka,
    "kafka-python": partial(version, "kafka-python"),
    "aiokafka": partial(version, "aiokafka"),
    "franz-go": partial(_required, "tests/wire/franz_go/go.mod", r"franz-go v([\d.]+)"),
}
"""The clients (columns of the first table), each with a function that returns the tested version."""

SECURED_CLIENTS: Mapping[str, Callable[[], str]] = {
    **CLIENTS,
    "sarama": partial(_required, "tests/wire/secured_clients/sarama/go.mod", r"sarama v([\d.]+)"),
    "kafkajs": partial(_required, "examples/node/package.json", r'"kafkajs": "([\d.]+)"'),
}
"""The clients of the table about secured connections."""

_WIRE = "tests/wire/"


@dataclass(slots=True, frozen=True)
class Cases:
    """Selects tests whose ids begin with ``test``. The client is a parameter of the test, unless ``client`` is set. ``kind`` is
    another required parameter.
    """

    test: str
    client: str | None = None
    kind: str | None = None

    def are_of(self, test: str, client: str) -> bool:
        if not test.startswith(_WIRE + self.test):
            return False
        parameters = f"-{test.partition('[')[2].removesuffix(']')}-".lower()
        if self.kind is not None and f"-{self.kind}-" not in parameters:
            return False
        return client == self.client if self.client is not None else f"-{client.lower()}-" in parameters


FEATURES: Mapping[str, tuple[Cases, ...]] = {
    "Records are read as they were written, with each compression type": (Cases("test_clients.py::test_produced"),),
    "Records of committed transactions are read, those of aborted and open ones are not": (
        Cases("test_clients.py::test_read_committed"),
        Cases("test_clients.py::test_open"),
    ),
    "Zombies are fenced, abandoned transactions time out": (
        Cases("test_clients.py::test_zombie"),
        Cases("test_clients.py::test_abandoned"),
    ),
    "The broker is stopped or killed during a transaction": (Cases("test_clients.py::test_broker_restart"),),
    "Responses are lost: no record is duplicated, and transactions stay atomic": (Cases("test_retries.py"),),
    "Groups of the classic protocol": (Cases("test_clients.py::test_consumer_group", kind="classic"),),
    "Groups of KIP-848 (`group.protocol=consumer`)": (
        Cases("test_clients.py::test_consumer_group", kind="consumer"),
        Cases("test_consumer_groups.py"),
    ),
    "Offsets are committed with the transaction": (Cases("test_clients.py::test_offsets"),),
    "Consume, transform, produce, while workers and brokers are killed": (Cases("test_shop.py"), Cases("test_pipes.py")),
    "Share groups (KIP-932)": (Cases("test_share_groups.py", client="Java"),),
    "Requests of admin clients, with the responses of Apache Kafka": (
        Cases("test_admin_surface.py::test_ottla_and_kafka", client="Java"),
        Cases("test_admin_surface.py::test_ottla_and_kafka", client="franz-go"),
        Cases("test_java_admin.py", client="Java"),
        Cases("test_admin_tools.py::test_confluent", client="confluent-kafka"),
        Cases("test_admin_tools.py::test_kafka_python", client="kafka-python"),
    ),
}
"""The features (rows of the first table), each with its tests."""


def _programs(way: str) -> tuple[Cases, ...]:
    """Select the programs that commit a transaction and read it in a group, in one way to connect."""
    program = "test_secured_programs.py::test"
    return (
        Cases(f"{program}_documented_python", kind=way),
        Cases(f"{program}_go", kind=way),
        Cases(f"{program}_java", client="Java", kind=way),
        Cases(f"{program}_kafkajs", client="kafkajs", kind=way),
    )


SECURED: Mapping[str, tuple[Cases, ...]] = {
    "TLS without client certificates": _programs("ssl"),
    "TLS with client certificates": _programs("mtls"),
    "PLAIN, without and with TLS": _programs("plain"),
    "SCRAM-SHA-256, without and with TLS": _programs("scram-sha-256"),
    "SCRAM-SHA-512, without and with TLS": _programs("scram-sha-512"),
    "OAUTHBEARER, without and with TLS": _programs("oauthbearer"),
    "The client authenticates again before its session ends (KIP-368)": (
        Cases("test_reauthentication.py::test_java", client="Java"),
        Cases("test_reauthentication.py::test_franz_go", client="franz-go"),
    ),
    "The listener has a key store and a trust store in PKCS12": (Cases("test_tls_listeners.py::test_stock_clients", kind="ottla"),),
}
"""The secured connections (rows of the table about them), each with its tests."""

TABLES = ((FEATURES, CLIENTS), (SECURED, SECURED_CLIENTS))
"""The tables of clients: rows and columns."""

OTHERS: Mapping[str, tuple[str, Callable[[], str]]] = {
    "Kafka's command line tools": ("tests/wire/test_(admin_)?tools.py", lambda: TOOLS_VERSION),
    "Kafka Streams, with the classic protocol and with KIP-1071": ("tests/wire/test_streams.py", lambda: STREAMS_VERSION),
    "MirrorMaker on Kafka Connect": ("tests/wire/test_mirror.py", lambda: TOOLS_VERSION),
    "Apache Kafka as a broker in a cluster of ottla": ("tests/wire/test_mixed_(cluster|transactions).py", lambda: KAFKA_VERSION),
    "Testcontainers for Java": (r".*test_testcontainers_class_starts_the_image\[java", lambda: _libraries("java")),
    "Testcontainers for Python": (r".*test_testcontainers_class_starts_the_image\[python", lambda: _libraries("python")),
    "Testcontainers for Go": (r".*test_testcontainers_class_starts_the_image\[go", lambda: _libraries("go")),
    "Testcontainers for Node": (r".*test_testcontainers_class_starts_the_image\[node", lambda: _libraries("node")),
    "JUnit 5, the extension in `examples/junit`": (
        "tests/wire/test_examples.py::test_junit",
        partial(_required, "tests/wire/test_examples.py", r'JUNIT_VERSION = "([\d.]+)"'),
    ),
    "Go, the helper in `examples/go`, with franz-go": (
        "tests/wire/test_examples.py::test_go",
        partial(_required, "examples/go/go.mod", r"franz-go v([\d.]+)"),
    ),
    "Node, the helper in `examples/node`, with kafkajs": (
        "tests/wire/test_examples.py::test_node",
        partial(_required, "examples/node/package.json", r'"kafkajs": "([\d.]+)"'),
    ),
}
"""The rows of the second table, each with a regular expression for the tests' ids and a function that returns the version."""


def _libraries(language: str) -> str:
    from tests.container.libraries import LIBRARIES

    return ", ".join(name.removeprefix(f"{language}-") for name in LIBRARIES if name.startswith(language))


@dataclass(slots=True, frozen=True)
class Results:
    """Versions by column or row of the page, and scores by row and column."""

    versions: Mapping[str, str]
    scores: Mapping[tuple[str, str], str]
    others: Mapping[str, str]


def _score(outcomes: list[str]) -> str:
    run = [outcome for outcome in outcomes if outcome != "skipped"]
    return f"{run.count('passed')} of {len(run)}" if run else NO_TESTS


def results_of(outcomes: Mapping[str, str]) -> Results:
    """Compute the results from the outcome of each test."""
    scores = {
        (feature, client): _score([end for test, end in outcomes.items() if any(of.are_of(test, client) for of in cases)])
        for features, clients in TABLES
        for feature, cases in features.items()
        for client in clients
    }
    others = {name: _score([end for test, end in outcomes.items() if re.match(tests, test)]) for name, (tests, _) in OTHERS.items()}
    versions = {name: known() for name, known in SECURED_CLIENTS.items()} | {name: known() for name, (_, known) in OTHERS.items()}
    return Results(versions=versions, scores=scores, others=others)


def results_on(page: str) -> Results:
    """Parse the results on a page."""
    versions: dict[str, str] = {}
    scores: dict[tuple[str, str], str] = {}
    others: dict[str, str] = {}
    for line in page.splitlines():
        first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if first == "version":
            versions |= dict(zip(SECURED_CLIENTS, cells, strict=False))
        elif first in FEATURES or first in SECURED:
            clients = CLIENTS if first in FEATURES else SECURED_CLIENTS
            scores |= {(first, client): cell for client, cell in zip(clients, cells, strict=True)}
        elif first in OTHERS:
            versions[first], others[first] = cells
    return Results(versions=versions, scores=scores, others=others)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _table(results: Results, features: Mapping[str, tuple[Cases, ...]], clients: Mapping[str, Callable[[], str]]) -> list[str]:
    """Return the lines of a table with a row per feature and a column per client."""
    return [
        _row("", *clients),
        _row(*["---"] * (len(clients) + 1)),
        _row("version", *(results.versions.get(client, NO_TESTS) for client in clients)),
        *(_row(feature, *(results.scores.get((feature, client), NO_TESTS) for client in clients)) for feature in features),
    ]


def document(results: Results) -> str:
    lines = [
        "# Compatibility",
        "",
        "The tables count passed tests and all tests of the last `make compatibility`, with released versions of clients.",
        "A dash means that no test uses this client for the feature, not that it fails: every version of every API is compared",
        "with Apache Kafka's responses, independently of clients ([APIs](apis.md), [conformance](conformance.md)).",
        "",
        *_table(results, FEATURES, CLIENTS),
        "",
        "In the tests of compatibility, kafka-python and aiokafka use the classic group protocol.",
        "",
        "Secured connections: each test commits a transaction and reads it in a group, except for the row about sessions",
        "([security](security.md), [security in tests](security-in-tests.md)).",
        "",
        *_table(results, SECURED, SECURED_CLIENTS),
        "",
        "Tests of other programs:",
        "",
        _row("program", "version", "tests"),
        _row(*["---"] * 3),
        *(_row(name, results.versions.get(name, NO_TESTS), results.others.get(name, NO_TESTS)) for name in OTHERS),
        "",
        "The versions of Spark that [ottla.spark](spark.md) supports are a matrix in `.github/workflows/tests.yml`. Apache Kafka",
        "4.3 and 4.4 can take over a data directory ([graduate](graduate.md)). Clients for .NET, Rust and PHP were not tested;",
        "those that are built on librdkafka use the same protocol versions as confluent-kafka.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/compatibility.md.")
    parser.add_argument("results", type=Path, nargs="?", help="of a run; without, the page keeps its figures")
    options = parser.parse_args()
    if options.results is None:
        results = results_on(TARGET.read_text())
    else:
        results = results_of({test: r["outcome"] for test, r in json.loads(options.results.read_text()).items()})
    TARGET.write_text(document(results))
    print(f"written: {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
