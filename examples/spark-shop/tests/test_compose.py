"""Tests of the compose file: its settings exist, and its commands start a Spark cluster."""

from __future__ import annotations

import re
import shlex
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from shop.__main__ import _parser
from shop.cluster import START_S, free_port, kill, spark_class, spawned
from shop.settings import read

SERVICES: dict[str, Any] = yaml.safe_load((Path(__file__).parent.parent / "compose.yaml").read_text())["services"]


def test_one_variable_selects_the_broker() -> None:
    assert re.fullmatch(r"\$\{KAFKA_IMAGE:-ottla:[\d.]+\}", SERVICES["kafka"]["image"])


@pytest.mark.parametrize("name", ["fill", "shop"])
def test_commands_and_settings_of_the_jobs_exist(name: str) -> None:
    program, *arguments = shlex.split(SERVICES[name]["command"])
    assert program == "shop"
    _parser().parse_args(arguments)
    settings = read(None, SERVICES[name]["environment"])
    port = re.search(r"DOCKER://kafka:(\d+)", SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"])
    assert port is not None
    assert settings.bootstrap == f"kafka:{port[1]}"
    host, _, master_port = settings.master.removeprefix("spark://").partition(":")
    assert f"--host {host} --port {master_port}" in SERVICES["spark-master"]["command"]
    assert settings.master in SERVICES["spark-worker-1"]["command"]


def test_checkpoints_are_shared_by_driver_and_workers() -> None:
    for name in ("shop", "spark-worker-1", "spark-worker-2"):
        directory = SERVICES["shop"]["environment"]["SHOP_CHECKPOINTS"]
        assert f"checkpoints:{directory}" in SERVICES[name]["volumes"]


def test_every_dependency_is_a_service() -> None:
    assert {other for service in SERVICES.values() for other in service.get("depends_on", ())} <= set(SERVICES)


def test_commands_of_the_compose_file_start_a_cluster(tmp_path: Path) -> None:
    port = str(free_port())
    with ExitStack() as stack:
        for name in ("spark-master", "spark-worker-1", "spark-worker-2"):
            text = SERVICES[name]["command"].replace("spark-master", "127.0.0.1").replace("7077", port)
            text = text.replace("8080", "0").replace("/tmp/work", str(tmp_path / name))
            command = [spark_class() if word == "spark-class" else word for word in shlex.split(text)]
            log = tmp_path / f"{name}.log"
            stack.callback(kill, spawned(command, log, {"SPARK_LOCAL_IP": "127.0.0.1"}))
            wanted = "elected leader" if name == "spark-master" else "Successfully registered with master"
            deadline = time.monotonic() + START_S
            while wanted not in log.read_text():
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
