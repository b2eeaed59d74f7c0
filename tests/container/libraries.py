"""Testcontainers in several languages, installed from their package registries, and programs that start their Kafka containers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.fetched import fetched, node_package, run
from tools import fetching, go, java_programs, kafka
from tools.kafka import cache_dir

PROGRAMS = Path(__file__).parent / "testcontainers"
JAVA = {"2.0.5": "testcontainers-kafka", "1.21.4": "kafka"}
"""Artifact of each major release of Testcontainers for Java."""
PYTHON_PACKAGES = ("testcontainers==4.15.0", "docker==7.2.0", "packaging")
NODE_PACKAGE = "@testcontainers/kafka@11.14.0"
"""Package of the last major release that runs on Node 20."""


def java(version: str) -> tuple[list[str], dict[str, str]]:
    artifacts = [("org.testcontainers", JAVA[version], version), ("org.slf4j", "slf4j-nop", "1.7.36")]
    jars = fetched(
        f"testcontainers-java-{version}",
        lambda target: fetching.fetch(artifacts, target, java=kafka.java(), home=cache_dir() / "ivy"),
    )
    command = java_programs.command(PROGRAMS / "Kafkas.java", f"{jars}/*", "-XX:TieredStopAtLevel=1", "-Xmx128M")
    return [*command, "ottla:8.0.0"], {}


def python() -> tuple[list[str], dict[str, str]]:
    pip = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PYTHON_PACKAGES)
    folder = fetched("testcontainers-python-4.15.0", lambda target: run(*pip, "--target", str(target)))
    return [sys.executable, str(PROGRAMS / "kafkas.py"), "ottla:8.0.0"], {"PYTHONPATH": str(folder)}


def node() -> tuple[list[str], dict[str, str]]:
    folder = node_package("testcontainers-node-11.14.0", NODE_PACKAGE)
    return [str(shutil.which("node")), str(PROGRAMS / "kafkas.js"), "ottla"], {"NODE_PATH": str(folder)}


def go_module() -> tuple[list[str], dict[str, str]]:
    return [str(go.built(PROGRAMS / "kafka_go")), "ottla:8.0.0"], {}


LIBRARIES: dict[str, Callable[[], tuple[list[str], dict[str, str]]]] = {
    "java-2.0.5": lambda: java("2.0.5"),
    "java-1.21.4": lambda: java("1.21.4"),
    "python-4.15.0": python,
    "node-11.14.0": node,
    "go-0.44.0": go_module,
}
"""Functions that return the command and environment of each library's program. They raise `Unavailable`."""
STARTED = {
    "java": ["apache", "confluent", "older-kraft", "older-zookeeper"],
    "python": ["kraft", "zookeeper"],
    "node": ["kraft-8.0.0", "kraft-7.3.0", "zookeeper-7.3.0", "secured-8.0.0"],
    "go": ["kraft"],
}
"""Containers that each program starts, one after the other."""


def environment(more: dict[str, str]) -> dict[str, str]:
    """Return this process's environment variables without those of Docker, Testcontainers and Python, updated with ``more``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DOCKER_", "TESTCONTAINERS_", "PYTHON"))}
    return {**kept, **more}
