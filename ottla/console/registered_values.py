"""Decodes values with the schemas of the broker's schema registry, for the pages ``messages`` and ``record``."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ottla.client.errors import ClientError
from ottla.client.schema_registry.decoding import RegistryDecoder
from ottla.client.schema_registry.framing import unframed
from ottla.client.schema_registry.registry_client import MAX_SCHEMAS, Registry, RegistryClient
from ottla.console.decoding import Decoded

FAILURE_S: Final = 5.0
"""Time, in seconds, after which a schema that could not be read is requested again."""
SLOW_S: Final = 1.0
"""If a request fails after at least this time, in seconds, no schema is requested for `FAILURE_S`, because a page may have values
of many schemas."""
ALL: Final = -1
"""Replaces the schema id of a failure that applies to all schemas."""


class RegistryValues:
    """Decodes values with schemas that it requests from the registry. Open pages share an instance, which caches at most
    `MAX_SCHEMAS` schemas.

    ``registry`` is called for the first value or page of schemas, because the console opens before the registry.
    """

    def __init__(self, registry: Callable[[], Registry], now_s: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._now_s = now_s
        self._lock = threading.Lock()
        self._client_lock = threading.Lock()
        """Separate from ``_lock``, which is held while a registry answers."""
        self._client: RegistryClient | None = None
        self._decoder: RegistryDecoder | None = None
        self._failures: dict[int, tuple[float, str]] = {}
        """By schema id: the time, in seconds, until which a failed request is not repeated, and why it failed."""

    def client(self) -> RegistryClient:
        """Return the client of the registry, which all pages and actions share."""
        with self._client_lock:
            if self._client is None:
                self._client = RegistryClient(self._registry())
            return self._client

    def decode(self, data: bytes) -> Decoded | None:
        split = unframed(data)
        if split is None:
            return None
        with self._lock:
            begun_s = self._now_s()
            for key in (ALL, split.schema_id):
                until_s, reason = self._failures.get(key, (begun_s, ""))
                if begun_s < until_s:
                    raise ClientError(reason)
            try:
                if self._decoder is None:
                    self._decoder = RegistryDecoder(self.client())
                found = self._decoder.decode(data)
            except ClientError as error:
                now_s = self._now_s()
                if len(self._failures) >= MAX_SCHEMAS:
                    self._failures.clear()
                self._failures[ALL if now_s - begun_s >= SLOW_S else split.schema_id] = now_s + FAILURE_S, str(error)
                raise
        return None if found is None else Decoded(kind=found.format, text=_json(found.value), is_json=True)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, ValueError):
        # Unlike `json`, msgspec encodes neither integers of more than 64 bits nor texts that are not UTF-8.
        return json.dumps(value)
