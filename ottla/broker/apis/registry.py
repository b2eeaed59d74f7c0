"""Finds the APIs that a server offers. Each API has a schema in `protocol` and a handler module of the same name.

A new API needs two files: ``protocol/schemas/end_txn.schema``, from which ``make generate`` adds an entry to
`protocol.messages.APIS`, and ``broker/handlers/end_txn.py`` with its `Declaration`.

A handler's module is imported at the first request of its API, because importing all modules would block the event loop for too
long. ApiVersions therefore reads the versions from `protocol.messages.APIS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Generic, TypeVar

from ottla.broker.apis.api import Declared
from ottla.protocol.messages import APIS

FORWARDED = frozenset({19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81, 94})
"""The keys of the APIs that only a controller handles, and that a broker forwards (``forwardable`` of Kafka's ApiKeys)."""

S = TypeVar("S")


def modules_of(package: ModuleType) -> dict[str, str]:
    """The full names of a package's modules, by short name."""
    return {module.name: f"{package.__name__}.{module.name}" for module in iter_modules(package.__path__)}


class ApiRegistry(Generic[S]):
    """The APIs of one kind of server, whose handlers get the services ``S``."""

    def __init__(self, modules: Mapping[str, str], offered_from: Mapping[int, int] | None = None) -> None:
        """``modules``: full names of modules by short name. Modules without a schema of the same name are ignored.

        ``offered_from``: by API key, the lowest version that ApiVersions offers, if it differs from the schema's lowest version.
        """
        self.modules = {key: modules[entry.module] for key, entry in sorted(APIS.items()) if entry.module in modules}
        """The full name of the handler's module by API key, ordered by key."""
        self._offered_from = dict(offered_from or {})
        self._declared: dict[int, Declared[S]] = {}
        self._change: Callable[[Declared[S]], Declared[S]] | None = None

    def changed_by(self, change: Callable[[Declared[S]], Declared[S]]) -> ApiRegistry[S]:
        """A registry of the same APIs that applies ``change`` to each declaration, after the changes of this registry."""
        earlier = self._change
        changed = ApiRegistry[S]({})
        changed.modules, changed._offered_from = self.modules, self._offered_from
        changed._change = change if earlier is None else lambda declared: change(earlier(declared))
        return changed

    def __contains__(self, key: int) -> bool:
        return key in self.modules

    def declaration(self, key: int) -> Declared[S]:
        declared = self._declared.get(key)
        if declared is None:
            own: Declared[S] = import_module(self.modules[key]).API
            declared = self._declared[key] = own if self._change is None else self._change(own)
        return declared

    def offered_versions(self, *, unstable: bool = False) -> list[tuple[int, int, int]]:
        """The key, lowest and highest version of each API, ordered by key.

        ``unstable`` is ``unstable.api.versions.enable``.
        """
        lowest, apis = self._offered_from, APIS
        return [
            (key, lowest.get(key, apis[key].min_version), apis[key].newest_version if unstable else apis[key].max_version)
            for key in self.modules
        ]
