"""What the documentation's pages tell a reader to type is typed here, page by page, in a directory of its own."""

from __future__ import annotations

import configparser
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from tools.kafka import free_port

pytestmark = pytest.mark.wire

DOCS = Path(__file__).parents[2] / "docs"
TIMEOUT_S = 120
PORT = "9092"
"""The port in the pages. A free one takes its place."""

EXPECTED = {
    "index.md": [r"first order", r"PARTITION"],
    "install.md": [r"ottla \d+\.\d+"],
    "five-minutes.md": [
        r"a\s+1\b",
        r"orders:0 stands at 3 of 5 .* transaction of producer \d+ epoch 0, transactional id checkout-1 from client web-7",
        r"sequenceDiagram",
        r"abort marker",
    ],
    "pytest.md": [r"1 passed", r"2 passed"],
    "github-actions.md": [r""],
    "graduate.md": [r"whole"],
    "troubleshooting.md": [r"orders:0 holds nobody"],
}
"""For each page with a shell's lines: texts, as regular expressions, that must be among what they print."""

PIP = """#!/bin/sh
# In place of pip: what the pages install is here already. That the wheel can be installed is tests/wire/test_packaging.py's.
case "$*" in
    "install ."|"install confluent-kafka"|"install pytest confluent-kafka"|"install dist/"*|"wheel --no-deps --wheel-dir dist .") ;;
    *) echo "pip $*: not known" >&2; exit 1 ;;
esac
"""


class Block(msgspec.Struct, frozen=True):
    """A fenced block of a page: its language, the file that it is shown as, and its lines."""

    language: str
    title: str | None
    text: str


def blocks(name: str) -> list[Block]:
    fences = re.findall(r'^ *```(\w*)(?: title="([^"]+)")?\n(.*?)^ *```$', (DOCS / name).read_text(), re.DOTALL | re.MULTILINE)
    return [Block(language, title or None, text) for language, title, text in fences]


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "index.md" else pytest.mark.slow) for n in EXPECTED])
def test_a_page_can_be_typed(name: str, tmp_path: Path) -> None:
    port = str(free_port())
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "pip").write_text(PIP)
    (tools / "pip").chmod(0o755)
    page = tmp_path / "page"
    page.mkdir()
    lines = []
    for block in blocks(name):
        text = block.text.replace(PORT, port)
        if block.language == "sh":
            lines.append(text)
        elif block.language == "python":
            assert block.title is not None, "a program without a name cannot be started"
            (page / block.title).write_text(text)
    # What a page starts in the background and does not end itself ends with it.
    script = "trap 'jobs -p | xargs -r kill; wait' EXIT\n" + "".join(lines)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OTTLA_", "KAFKA_", "PYTEST"))}
    environment |= {
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
    }
    if name != "pytest.md":
        # For the plugin it would be a Kafka that is there already.
        environment["OTTLA_BOOTSTRAP"] = f"127.0.0.1:{port}"
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=page,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output
    for expected in EXPECTED[name]:
        assert re.search(expected, output), f"{expected} is not in:\n{output}"


@pytest.mark.parametrize("name", sorted(path.name for path in DOCS.glob("*.md")))
def test_settings_on_a_page_are_well_formed(name: str) -> None:
    for block in blocks(name):
        if block.language in ("yaml", "yml"):
            yaml.safe_load(block.text)
        elif block.language == "ini":
            configparser.ConfigParser().read_string(block.text)
        elif block.language == "sh":
            assert name in EXPECTED, "a page with a shell's lines is typed by the test above"
