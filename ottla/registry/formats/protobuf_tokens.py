"""Compares Protobuf texts without a compiler: two texts with the same tokens are the same schema."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<skipped>\s+|//[^\n]*|/\*.*?\*/) | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [\w.]+ | .""", re.VERBOSE | re.DOTALL
)


def tokens(text: str) -> str:
    """Return the tokens of a schema's text, without comments, separated by spaces."""
    return " ".join(match[0] for match in _TOKEN.finditer(text) if match["skipped"] is None)
