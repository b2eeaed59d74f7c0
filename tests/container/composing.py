"""Reads a compose file as compose does, and runs its services' commands in containers of `running`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import yaml

FILES = Path(__file__).parent / "compose"


class Service(msgspec.Struct, frozen=True):
    """A service of a compose file. ``volumes`` has the names of volumes by path in the container."""

    name: str
    environment: dict[str, str]
    volumes: dict[str, str]
    health: list[str]
    command: list[str]
    waits_until_healthy: bool


def services(file: str) -> dict[str, Service]:
    text = (FILES / file).read_text()
    document = yaml.safe_load(_interpolated(text))
    return {name: _service(name, body) for name, body in document["services"].items()}


def _interpolated(text: str) -> str:
    """Replace ``$$`` by ``$``. Compose replaces variables, of which these files have none."""
    assert not re.search(r"(?<!\$)\$(?:\$\$)*(?!\$)", text), "the file has a variable"
    return text.replace("$$", "$")


def _service(name: str, body: dict[str, Any]) -> Service:
    given = body.get("environment", {})
    pairs = [pair.split("=", 1) for pair in given] if isinstance(given, list) else given.items()
    waits_for = body.get("depends_on", {})
    return Service(
        name=name,
        environment={key: str(value) for key, value in pairs},
        volumes=dict(_volume(volume) for volume in body.get("volumes", ())),
        health=_health(body["healthcheck"]["test"]) if "healthcheck" in body else [],
        command=_in(body.get("working_dir"), [*_words(body.get("entrypoint", [])), *_words(body.get("command", []))]),
        waits_until_healthy=isinstance(waits_for, dict) and "service_healthy" in str(waits_for),
    )


def _words(command: str | list[str]) -> list[str]:
    return shlex.split(command) if isinstance(command, str) else command


def _in(directory: str | None, command: list[str]) -> list[str]:
    return command if directory is None else ["sh", "-c", f'cd {directory} && exec "$@"', "sh", *command]


def _volume(volume: str | dict[str, str]) -> tuple[str, str]:
    if isinstance(volume, dict):
        return volume["target"], volume["source"]
    source, target = volume.split(":")
    return target, source


def _health(test: str | list[str]) -> list[str]:
    if isinstance(test, str):
        return ["/bin/sh", "-c", test]
    kind, *words = test
    assert kind in ("CMD", "CMD-SHELL")
    return words if kind == "CMD" else ["/bin/sh", "-c", *words]
