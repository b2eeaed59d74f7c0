"""The devcontainer: its commands start a broker at the address in its environment variables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.examples import shells
from tests.examples.reading import EXAMPLES, commands
from tools.kafka import free_port

FOLDER = EXAMPLES / "devcontainer" / ".devcontainer"
DEFINITION: dict[str, Any] = json.loads((FOLDER / "devcontainer.json").read_text())


def test_devcontainer_forwards_the_port_of_its_bootstrap_address() -> None:
    assert [str(port) for port in DEFINITION["forwardPorts"]] == [*DEFINITION["portsAttributes"]]
    script = (FOLDER / "start-broker.sh").read_text()
    assert all(str(port) in script for port in DEFINITION["forwardPorts"])
    variables = DEFINITION["containerEnv"]
    assert variables["OTTLA_BOOTSTRAP"] == variables["KAFKA_BOOTSTRAP"] == f"127.0.0.1:{DEFINITION['forwardPorts'][0]}"


@pytest.mark.wire
def test_second_start_of_a_devcontainer_keeps_its_running_broker(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(FOLDER, project / ".devcontainer")
    replaced = {"9092": str(free_port()), "9095": str(free_port()), "/tmp/": f"{tmp_path}/"}

    def here(text: str) -> str:
        for given, own in replaced.items():
            text = text.replace(given, own)
        return text

    script = project / ".devcontainer" / "start-broker.sh"
    # setsid would take the broker out of the session that ends with the test.
    script.write_text(here(script.read_text()).replace("nohup setsid ", ""))
    environment = {name: here(value) for name, value in DEFINITION["containerEnv"].items()}
    lines = [
        DEFINITION["postCreateCommand"].replace("vendor/ottla-*.whl", "ottla"),
        DEFINITION["postStartCommand"],
        DEFINITION["postStartCommand"],
        "ottla produce orders --value paid",
        "ottla consume orders",
        "ottla health",
    ]
    output = shells.run("\n".join(lines), project, commands(tmp_path / "bin"), environment)
    assert output.count("console: http://127.0.0.1:") == 1
    assert "paid" in output
    assert output.endswith(f"127.0.0.1:{replaced['9092']} answers\n")
    assert list((project / ".ottla" / "data").glob("orders-*"))
