"""Parses feature levels from options."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cli.commands import Refused


def feature_levels(texts: Iterable[str], exit_code: int) -> dict[str, int]:
    """Parse feature levels, each as ``NAME=LEVEL``. Raises `Refused`."""
    from ottla.broker.metadata.cluster import SUPPORTED_FEATURES

    levels: dict[str, int] = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not equals or not (level.isascii() and level.isdigit()):
            raise Refused(f"--feature {text!r} is not NAME=LEVEL", exit_code)
        low, high = SUPPORTED_FEATURES.get(name, (0, -1))
        if not low <= int(level) <= high:
            known = ", ".join(f"{n} {a}-{b}" for n, (a, b) in sorted(SUPPORTED_FEATURES.items()))
            raise Refused(f"--feature {text!r} is not supported; supported are {known}", exit_code)
        levels[name] = int(level)
    return levels
