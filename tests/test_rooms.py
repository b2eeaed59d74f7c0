"""The docstring of a package names each of its modules, so that a reader of the directory finds a module's purpose."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED_BY_A_LIST = {
    "ottla": "the public names",
    "ottla/broker/handlers": "the APIs of Kafka",
    "ottla/broker/controller/handlers": "the APIs of Kafka",
    "ottla/cli": "root.COMMANDS",
    "ottla/protocol/codegen": "generates ottla/protocol/messages",
    "ottla/protocol/messages": "the messages of Kafka",
}
"""Packages whose modules correspond to the entries of a list, such as Kafka's APIs, so that the docstring need not name them."""
PACKAGES = sorted(
    str(path.parent.relative_to(ROOT))
    for path in (ROOT / "ottla").rglob("__init__.py")
    if len([module for module in path.parent.glob("*.py") if not module.name.startswith("__")]) > 1
)


@pytest.mark.parametrize("package", [package for package in PACKAGES if package not in NAMED_BY_A_LIST])
def test_package_docstring_names_every_module(package: str) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    modules = {module.stem for module in (ROOT / package).glob("*.py") if not module.name.startswith("__")}
    assert {module for module in modules if f"`{module}" not in docstring} == set()


def test_every_package_named_in_the_package_tests_exists() -> None:
    assert set(NAMED_BY_A_LIST) <= set(PACKAGES)


SHARED_NAMES = {
    "Ports": "what a module needs of the broker, a Protocol of its own in each",
    "Api": "the declaration of an API's messages, and the public names of APIs",
    "Client": "a client as a connection, the authorizer and the simulation see it",
    "Controller": "a controller as three rooms see it",
    "Record": "a record of the protocol, and of a test",
    **dict.fromkeys(
        (
            "GroupListing",
            "GroupMember",
            "GroupPosition",
            "OpenTransaction",
            "TopicListing",
            "TransactionDescription",
            "TransactionListing",
        ),
        "the read model of a broker, and the same as a client sees it",
    ),
}
"""Names that classes of several modules share. Generated messages have the names of Kafka's schemas."""


def test_each_class_name_is_used_for_one_concept_only() -> None:
    modules: dict[str, list[str]] = {}
    for path in (ROOT / "ottla").rglob("*.py"):
        if "protocol/messages" not in str(path):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    shared = {name: sorted(paths) for name, paths in modules.items() if len(paths) > 1}
    assert {name: paths for name, paths in shared.items() if name not in SHARED_NAMES} == {}
    assert set(SHARED_NAMES) <= set(shared), "remove the names that are no longer shared"
