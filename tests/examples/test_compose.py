"""The compose file with console and schema registry: its services run with their commands and variables."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.config.sources import from_environment
from tests.container.running import Container
from tests.examples.reading import EXAMPLES, document

SERVICES: dict[str, dict[str, Any]] = document("compose/compose.yaml")["services"]
ASK = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Host": sys.argv[2], "Authorization": "Bearer " + sys.argv[3]})
with urllib.request.urlopen(request, timeout=60) as response:
    for line in response:
        if "v1" not in sys.argv[1] or line.startswith(b"data: "):
            print(line.decode(), end="")
            break
"""


def published(service: str) -> dict[int, int]:
    """Return the ports on this machine by the ports of the container. Each port must be on loopback, because the services require
    no authentication."""
    ports = (re.fullmatch(r"127\.0\.0\.1:(\d+):(\d+)", port) for port in SERVICES[service]["ports"])
    return {int(port[2]): int(port[1]) for port in ports if port is not None}


def test_compose_services_publish_and_advertise_ports_on_loopback_only() -> None:
    assert published("kafka") == {9092: 9092, 8081: 8081}
    assert published("console") == {8080: 8080}
    assert all(len(published(name)) == len(service["ports"]) for name, service in SERVICES.items())
    environment = SERVICES["kafka"]["environment"]
    assert environment["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://localhost:9092,DOCKER://kafka:29092"
    assert SERVICES["console"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}


def test_compose_services_set_only_known_image_variables_and_as_strings() -> None:
    for path in ("compose/compose.yaml", "grafana/compose.yaml"):
        for service in document(path)["services"].values():
            variables = service.get("environment", {})
            assert all(isinstance(value, str) for value in variables.values())
            assert from_environment(variables)[1] == []
            assert "latest" not in service["image"] and ":" in service["image"]


@pytest.mark.wire
def test_compose_broker_registry_and_console_answer_at_published_addresses(started: Callable[..., Container]) -> None:
    container = started(environment=SERVICES["kafka"]["environment"], names=("kafka", "console"))
    container.wait_for("Kafka Server started")
    health = container.run(*container.image.health)
    assert health.returncode == 0, health
    topics = container.run("ottla", "topic", "list", "--bootstrap", "kafka:29092").stdout
    assert {"orders", "users"} <= {*topics.split()}, topics
    subjects = container.run("python3", "-c", ASK, "http://127.0.0.2:8081/subjects", "kafka:8081", "")
    assert json.loads(subjects.stdout) == [], subjects
    # In this test both services share one network, in which the names of both resolve.
    command = shlex.join(SERVICES["console"]["command"])
    waiting = "until grep -q token= /tmp/console.log; do kill -0 $! || exit 1; sleep 0.1; done"
    container.run("bash", "-c", f"{command} >/tmp/console.log 2>&1 & {waiting}")
    line = container.image.at("tmp/console.log").read_text()
    address = re.fullmatch(r"console of kafka:29092: http://127\.0\.0\.1:8080/console/#token=(\S+)\n", line)
    assert address is not None, line
    # A request from outside the container arrives at the container's address; its Host header has the published address.
    page = container.run("python3", "-c", ASK, "http://127.0.0.2:8080/console/v1/topics", "127.0.0.1:8080", address[1])
    assert '"orders"' in page.stdout and '"users"' in page.stdout, page


def test_compose_readme_names_each_published_port() -> None:
    text = (EXAMPLES / "compose/README.md").read_text()
    ports = [port for service in SERVICES for port in published(service).values()]
    assert all(f":{port}`" in text for port in ports)
