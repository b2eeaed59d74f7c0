"""What a broker's process imports of other people's packages, and what of them it leaves out: a start is mostly imports."""

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
    """Import what a broker wants of structlog, crc32c and aiokafka, and nothing that these import for other uses."""
    import_bare("crc32c", crc32c="crc32c._crc32c")
    import_bare("aiokafka")
    import_bare("aiokafka.record")
    names = ("DefaultRecord", "DefaultRecordBatch", "DefaultRecordBatchBuilder", "DefaultRecordMetadata")
    import_bare("aiokafka.record.default_records", **dict.fromkeys(names, _CODEC))
    with importing_without("rich"):
        import structlog  # noqa: F401


@contextmanager
def importing_without(name: str) -> Iterator[None]:
    """Let the imports within go on as where the package ``name`` is not installed.

    For packages that take another one in only because it is there: structlog takes rich, whose modules a broker never uses,
    and whose memory and time it would have to bear. A package that is imported already stays imported.
    """
    if name in sys.modules:
        yield
        return
    # What Python's import system takes for a module that cannot be imported.
    sys.modules[name] = cast(ModuleType, None)
    try:
        yield
    finally:
        del sys.modules[name]


def import_bare(name: str, **members: str) -> None:
    """Make a package known by its name alone, so that one of its modules can be imported without all that the package imports.

    aiokafka imports its whole client, and a broker needs its record codec: 3 MiB, and an eighth of a start. crc32c asks for its own
    version by modules that cost as much. The process must never want the package itself: of its own names only ``members`` are
    there, each with the module that has it. Does nothing where it is imported already, is not installed, or has no such module.
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
