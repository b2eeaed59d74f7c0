"""Writes docs/apis.md, the page of all served APIs, from their declarations and docstrings: ``python -m tools.apis``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from ottla.broker import handlers
from ottla.broker.apis.api import Declaration
from ottla.broker.handlers.registry import SERVED, declaration, offered_versions

TARGET = Path(__file__).parent.parent / "docs" / "apis.md"
HEAD = """# The APIs that ottla serves

Written by `python -m tools.apis` from the declarations in `ottla/broker/handlers`; `tests/broker/apis/test_declarations.py`
compares. The last column says which permissions the authorizer checks, if `authorizer.class.name` is set.

| key | API | versions | what it does | authorisation |
|---|---|---|---|---|
"""


def page() -> str:
    versions = {key: (low, high) for key, low, high in offered_versions()}
    return HEAD + "".join(_row(declaration(key), *versions[key]) for key in SERVED)


def _row(api: Declaration, low: int, high: int) -> str:
    file = SERVED[api.key]
    asked = ", ".join(f"{pair.operation.name} {pair.resource_type.name}" for pair in api.authorisation)
    shown = f"{low} to {high}" if low < high else str(low)
    link = f"[{api.name}](../ottla/broker/handlers/{file}.py)"
    return f"| {api.key} | {link} | {shown} | {_purpose(file)} | {asked or 'none'} |\n"


def _purpose(file: str) -> str:
    """Return the first line of a handler's docstring without the API's name and versions."""
    first = (import_module(f"{handlers.__name__}.{file}").__doc__ or "").partition("\n")[0]
    return first.partition(": ")[2].replace("``", "`")


def main() -> int:
    TARGET.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
