"""Finds the APIs that are served: those with a schema in `protocol` and a module of the same name in this package.

So a new API takes two files: ``protocol/schemas/end_txn.schema``, from which ``make generate`` adds an entry to
`protocol.messages.APIS`, and ``broker/handlers/end_txn.py`` with its `Declaration`. ApiVersions, dispatch and the tests use this
module.

A handler's module is imported at the first request of its API, because importing all of them would hold the event loop for too
long. So ApiVersions takes the versions from the index of the schemas, as `Declaration` does.
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
"""The module's name by API key, in the order of the keys."""

OFFERED_FROM = {0: 0}
"""The lowest version in ApiVersions, where it is not the schema's. Produce is offered from 0, because librdkafka does not compress
for a broker that does not offer it (KAFKA-18659). As in Kafka, versions 0 to 2 are refused."""


@cache
def declaration(key: int) -> Declaration:
    """The declaration of an API. Raises KeyError for an API that is not served."""
    declared: Declaration = import_module(f"{handlers.__name__}.{SERVED[key]}").API
    return declared


def offered_versions(*, unstable: bool = False) -> list[tuple[int, int, int]]:
    """Key, lowest and highest version of each API, in the order of the keys.

    ``unstable`` is ``unstable.api.versions.enable``.
    """
    return [
        (key, OFFERED_FROM.get(key, APIS[key].min_version), APIS[key].newest_version if unstable else APIS[key].max_version)
        for key in SERVED
    ]
