"""The wheel runs with uvx and pipx, which install it and its dependencies into an environment of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla import __version__
from ottla.client import KafkaClient, NewRecord

pytestmark = [pytest.mark.wire, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
INSTALL_TIMEOUT_S = 300
STOP_TIMEOUT_S = 60
RUNNERS = {
    "uvx": ("uvx", "--python", sys.executable, "--from"),
    "pipx": ("pipx", "run", "--python", sys.executable, "--spec"),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(target), str(ROOT)]
    subprocess.run(build, check=True, timeout=INSTALL_TIMEOUT_S, capture_output=True)
    (built,) = target.glob("ottla-*.whl")
    return built


@pytest.mark.parametrize("runner", RUNNERS)
def test_uvx_and_pipx_serve_a_broker_from_the_wheel(runner: str, wheel: Path, tmp_path: Path) -> None:
    name, *options = RUNNERS[runner]
    program = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip(f"{name} is not installed: pip install {'uv' if name == 'uvx' else name}")
    home = tmp_path / "home"
    home.mkdir()
    # The tool must see neither packages nor settings of the user or of this environment.
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "OTTLA_", "KAFKA_", "VIRTUAL_ENV", "XDG_"))
    }
    environment["HOME"] = str(home)
    command = [program, *options, str(wheel), "ottla"]
    done = subprocess.run(
        [*command, "--version"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"ottla {__version__}\n"), done.stderr
    serve = [*command, "serve", "--listen", "127.0.0.1:0", "--topic", "orders"]
    with subprocess.Popen(serve, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        try:
            with KafkaClient(ready["bootstrap"]) as cluster:
                cluster.produce("orders", [NewRecord(b"first order")])
                assert [record.value for record in cluster.records("orders")] == [b"first order"]
        finally:
            os.kill(ready["pid"], signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0
    assert (tmp_path / ".ottla" / "data").is_dir()
