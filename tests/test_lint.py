"""The repository holds itself to its own rules."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OUTSIDE = {"time", "os", "socket", "random", "uuid", "secrets", "subprocess", "threading"}
DOORS = {
    "ottla/broker/env.py": {"time", "os", "socket", "uuid"},
    "ottla/broker/metrics/server.py": {"socket", "threading"},
    "ottla/storage/real_filesystem.py": {"os"},
}
"""The only modules of the broker's rooms that may reach the outside world."""
MAX_LINES = 420
ROOMS = tuple(f"ottla/{name}" for name in ("protocol", "storage", "coordinator", "broker"))
LINKS = ("broker", "coordinator", "pipeline", "protocol", "storage")
"""Folders of the package that the top level names as well."""


def sources(*rooms: str) -> list[Path]:
    return [p for room in rooms for p in sorted((ROOT / room).rglob("*.py")) if "messages" not in p.parts]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("path", sources(*ROOMS), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_world_comes_in_through_env(path: Path) -> None:
    allowed = DOORS.get(str(path.relative_to(ROOT)), set())
    assert imported(path) & OUTSIDE <= allowed


@pytest.mark.parametrize("path", sources("ottla", "tools", "benchmarks"), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_can_be_held_in_mind(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("name", LINKS)
def test_the_top_level_names_the_folders_of_the_package(name: str) -> None:
    assert (ROOT / name).readlink() == Path("ottla") / name


@pytest.mark.parametrize("path", sources("ottla", "tests", "tools", "benchmarks"), ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_is_imported_through_the_links(path: Path) -> None:
    """A module has one name, that in the package: under two there would be two of each class."""
    assert not imported(path) & set(LINKS)


def test_every_honoured_setting_is_known_to_kafka() -> None:
    from ottla.broker.config.definitions import broker_definitions
    from ottla.broker.config.settings import HONOURED, OWN_DEFAULTS

    assert set(broker_definitions()) >= HONOURED | set(OWN_DEFAULTS)
