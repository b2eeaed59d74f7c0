"""Imports the third-party packages of a broker's process without the parts that a broker does not use, because most of the time of
a start is spent on imports."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast

_CODEC = "aiokafka.record._crecords"
"""aiokafka's record codec in C."""


def import_packages() -> None:
    """Import structlog, crc32c and the record codec of aiokafka, without the modules that these packages import for other uses."""
    import_bare("crc32c", crc32c="crc32c._crc32c")
    import_bare("aiokafka")
    import_bare("aiokafka.record")
    names = ("DefaultRecord", "DefaultRecordBatch", "DefaultRecordBatchBuilder", "DefaultRecordMetadata")
    import_bare("aiokafka.record.default_records", **dict.fromkeys(names, _CODEC))
    with importing_without("rich"):
        import structlog  # noqa: F401


@contextmanager
def importing_without(name: str) -> Iterator[None]:
    """Let the imports inside the block behave as if the package ``name`` were not installed.

    This is for packages that import another one only because it is installed: structlog imports rich, which a broker never uses and
    whose time and memory it would pay for. A package that is imported already stays imported.
    """
    if name in sys.modules:
        yield
        return
    # Python's import system takes None for a module that cannot be imported.
    sys.modules[name] = cast(ModuleType, None)
    try:
        yield
    finally:
        del sys.modules[name]


def import_bare(name: str, **members: str) -> None:
    """Put an empty package into `sys.modules`, so that one of its modules can be imported without all that the package imports.

    aiokafka imports its whole client, and a broker needs only its record codec: this saves 3 MiB and an eighth of a start. crc32c
    finds out its own version by modules that cost as much. The process must never use the package itself, of which only ``members``
    are there, each given with the module that has it. Does nothing where the package is imported already, is not installed, or has
    no such module.
    """
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None:
        return
    package = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        for member, module in members.items():
            setattr(package, member, getattr(importlib.import_module(module), member))
    except (ImportError, AttributeError):
        del sys.modules[name]
