"""Imports the third-party packages of a broker without unused parts, because imports take most of the start time."""

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
    """Import structlog, crc32c and aiokafka's record codec, without the modules that these packages import for other uses."""
    import_bare("crc32c", crc32c="crc32c._crc32c")
    import_bare("aiokafka")
    import_bare("aiokafka.record")
    names = ("DefaultRecord", "DefaultRecordBatch", "DefaultRecordBatchBuilder", "DefaultRecordMetadata")
    import_bare("aiokafka.record.default_records", **dict.fromkeys(names, _CODEC))
    with importing_without("rich"):
        import structlog  # noqa: F401


@contextmanager
def importing_without(name: str) -> Iterator[None]:
    """Make imports inside the block behave as if the package ``name`` were not installed.

    structlog imports rich merely because it is installed. A broker never uses rich, which costs time and memory. A package that is
    already imported stays imported.
    """
    if name in sys.modules:
        yield
        return
    # None in `sys.modules` makes an import fail.
    sys.modules[name] = cast(ModuleType, None)
    try:
        yield
    finally:
        del sys.modules[name]


def import_bare(name: str, **members: str) -> None:
    """Put an empty package into `sys.modules`, so that one of its modules can be imported without everything that the package
    imports.

    aiokafka imports its whole client, and a broker needs only its record codec: this saves 3 MiB and an eighth of a start. crc32c
    finds its own version with modules that cost as much. The process must never use the package itself, which has only ``members``,
    each given with its module. Does nothing if the package is imported already, is not installed, or has no such module.
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
