"""Parses and writes the JSON of schemas. JSON Schemas with the same written text are equal. The module needs no library, so that
the registry compares many schemas quickly at start."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ottla.client.schema_registry.strict_json import parsed_json

MAX_DEPTH: Final = 100
"""Maximum number of nested objects and arrays. The libraries recurse, and Python allows 1,000 nested calls."""
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])', re.DOTALL)
"""Matches brackets, and whole strings, because brackets in strings do not nest."""


def loaded(text: str) -> Any:
    """Parse JSON. Raises ValueError, also for a text that is nested too deeply."""
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth += (match[1] is not None) - (match[2] is not None)
        if depth > MAX_DEPTH:
            raise ValueError(f"the schema has more than {MAX_DEPTH} nested objects and arrays")
    return parsed_json(text)


def canonical(text: str) -> str:
    """Return the JSON without white space; keys keep their order, as in Confluent's registry. Raises ValueError."""
    return json.dumps(loaded(text), separators=(",", ":"), ensure_ascii=False)
