"""Which APIs are served: those of the schemas in `protocol` that have a file of the same name in this folder.

So a new API is two files: ``protocol/schemas/end_txn.schema``, of which ``make generate`` makes an entry in
`protocol.messages.APIS`, and ``broker/handlers/end_txn.py`` with its `Declaration`. ApiVersions, dispatch and the tests ask here.

A file is imported when the first request of its API comes, because importing all of them takes longer than one client may hold
the event loop. Therefore ApiVersions takes the versions from the index of the schemas, which `Declaration` reads too.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from ottla.broker import handlers
from ottla.broker.api import Declaration
from ottla.protocol.messages import APIS

_FILES = {module.name for module in iter_modules(handlers.__path__)}

SERVED: dict[int, str] = {key: entry.module for key, entry in sorted(APIS.items()) if entry.module in _FILES}
"""API key -> name of the file in this folder, by key."""

OFFERED_FROM = {0: 0}
"""Lowest versions in ApiVersions that are not the schema's. Produce is offered from 0, because librdkafka compresses for no broker
that does not offer it (KAFKA-18659); as in Kafka, versions 0 to 2 are refused when they come."""


@cache
def declaration(key: int) -> Declaration:
    """Raises KeyError for an API that is not served."""
    declared: Declaration = import_module(f"{handlers.__name__}.{SERVED[key]}").API
    return declared


def offered_versions(*, unstable: bool = False) -> list[tuple[int, int, int]]:
    """Key, lowest and highest version of each API, by key. ``unstable`` is ``unstable.api.versions.enable``."""
    return [
        (key, OFFERED_FROM.get(key, APIS[key].min_version), APIS[key].newest_version if unstable else APIS[key].max_version)
        for key in SERVED
    ]
