"""Requests to a schema registry that `ottla.spark` does not make itself, such as lists of subjects."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from ottla.spark.schemas.registry import Registry


def ask(registry: Registry, path: str, body: Any = None) -> Any:
    """Return the JSON of the response to a GET, or to a POST of ``body``. Raises `urllib.error.HTTPError`."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(registry.url + path, data), timeout=60) as answer:
        return json.load(answer)
