"""docs/control.md documents every request of the control API with its parameters."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ottla.control.commands import COMMANDS
from ottla.control.http_api import PAUSE, RESUME

PAGE = (Path(__file__).parent.parent.parent / "docs" / "control.md").read_text()
ROW = re.compile(r"^\| `(GET|POST|DELETE) (/v1/[\w/{}]+)` \| (?:`(\{.*?\})`)?", re.MULTILINE)


def test_every_control_command_is_documented() -> None:
    served = {(command.method, command.path) for command in COMMANDS} | {("POST", PAUSE), ("POST", RESUME)}
    assert {(method, path) for method, path, _ in ROW.findall(PAGE)} == served


def test_control_api_accepts_the_documented_request_bodies() -> None:
    bodies = {(method, path): body for method, path, body in ROW.findall(PAGE)}
    for command in COMMANDS:
        body = bodies[command.method, command.path]
        command.parsed(body.encode())
        if command.parse is None:
            assert set(msgspec.json.decode(body or "{}")) == set(command.parameters.__struct_fields__)
