"""Runs the commands that readers of the documentation are asked to type, in a temporary directory."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.pages import catalogue
from tests.pages.blocks import ROOT, block, blocks
from tests.pages.catalogue import Session
from tools import kafka
from tools.kafka import free_port

pytestmark = pytest.mark.wire

TIMEOUT_S = 120
SPARK_TIMEOUT_S = 500
PIP = """#!/bin/sh
# In place of pip: what the pages install is here already. That the wheel can be installed is tests/wire/test_packaging.py's.
case "$*" in
    "install ."|"install .[spark]") ;;
    "install confluent-kafka"|"install pytest confluent-kafka"|"install dist/"*|"wheel --no-deps --wheel-dir dist .") ;;
    *) echo "pip $*: not known" >&2; exit 1 ;;
esac
"""
RUNNER = """#!/bin/sh
# Replaces uvx and pipx, which tests/wire/test_tool_runners.py runs.
case "$*" in
    "--from dist/"*.whl" ottla serve"|"run --spec dist/"*.whl" ottla serve") ;;
    *) echo "uvx or pipx $*: unexpected arguments" >&2; exit 1 ;;
esac
"""
PRELUDE = """\
trap 'jobs -p | xargs -r kill; wait' EXIT
# For the plugin it would be a Kafka that is there already.
pytest() { env -u OTTLA_BOOTSTRAP pytest "$@"; }
"""
SMALLER = {"--rows 200000": "--rows 2000"}
"""Replacements for arguments that would take too long in a test."""


def marks(session: Session) -> list[pytest.MarkDecorator]:
    heavy = [pytest.mark.java, pytest.mark.heavy] if session.needs_spark else []
    if session.needs is not None:
        heavy.append(pytest.mark.skipif(find_spec(session.needs) is None, reason=f"needs {session.needs}"))
    return [*heavy, pytest.mark.full if session.is_slow else pytest.mark.smoke]


def free_ports() -> int:
    """Return the first of three consecutive free ports, which the brokers of a cluster listen on."""
    while True:
        first = free_port()
        with contextlib.ExitStack() as bound, contextlib.suppress(OSError, OverflowError):
            for port in range(first, first + 3):
                bound.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


PAGES = [
    pytest.param(session, [block.text for block in blocks(page) if block.language == "sh"], page, id=page, marks=marks(session))
    for page, session in catalogue.PAGES_TYPED.items()
]
ALONE = [
    pytest.param(session, [block(name).text], name[0], id=f"{name[0]}: {name[1][:40].strip()}", marks=marks(session))
    for name, session in catalogue.SESSIONS.items()
]


@pytest.mark.parametrize(("session", "lines", "page"), [*PAGES, *ALONE])
def test_documented_shell_commands_exit_without_errors(session: Session, lines: list[str], page: str, tmp_path: Path) -> None:
    port = str(free_ports())
    elsewhere = {"9092": port, "9095": str(free_port()), "/tmp/": f"{tmp_path}/", "/var/lib/kafka": f"{tmp_path}/kafka"}

    def here(text: str) -> str:
        for given, own in {**elsewhere, **SMALLER}.items():
            text = text.replace(given, own)
        return text

    tools = tmp_path / "bin"
    tools.mkdir()
    for name, script in (("pip", PIP), ("uvx", RUNNER), ("pipx", RUNNER)):
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    directory = tmp_path / "page"
    directory.mkdir()
    left_out = shutil.ignore_patterns("__pycache__", "node_modules", ".ottla")
    shutil.copytree(ROOT / "examples", directory / "examples", ignore=left_out)
    for program in blocks(page):
        if program.title is not None and program.language == "python":
            (directory / program.title).write_text(here(program.text))
    for name, text in session.files.items():
        (directory / name).write_text(text)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OTTLA_", "KAFKA_", "PYTEST"))}
    environment |= {
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "OTTLA_BOOTSTRAP": f"127.0.0.1:{port}",
        "OTTLA_CACHE": str(kafka.cache_dir()),
    }
    if session.needs_spark:
        pytest.importorskip("pyspark")
        from tests.support import quick_java

        environment |= quick_java.environment()
    # The script's first lines stop background processes that the page's commands leave running.
    script = PRELUDE + here("".join([session.first, *lines, session.last]))
    printed = tmp_path / "printed"
    with printed.open("w") as out:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=directory,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        process.wait(SPARK_TIMEOUT_S if session.needs_spark else TIMEOUT_S)
    finally:
        # All processes that the commands have started are in the same session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    output = printed.read_text()
    assert process.returncode == 0, output
    for expected in session.expected:
        assert re.search(expected, output), f"the output does not match {expected}:\n{output}"
