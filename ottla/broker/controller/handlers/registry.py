"""The APIs of a controller: those of the handlers in this package, and those that it answers as a broker does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker import handlers as broker_handlers
from ottla.broker.controller import handlers
from ottla.broker.controller.services import ControllerServices
from ottla.broker.registry import Registry, modules_of

if TYPE_CHECKING:
    from ottla.broker.api import Handler
    from ottla.broker.handlers import api_versions

    # A handler that is shared is loaded by its name. So mypy sees here that a controller has all that the handler needs.
    _CHECKED: list[Handler[ControllerServices]] = [api_versions.handle]

SHARED = ("api_versions",)
"""Handlers of the broker's that serve a controller as well."""

_OF_BROKERS = modules_of(broker_handlers)

CONTROLLER_APIS: Registry[ControllerServices] = Registry(
    {name: _OF_BROKERS[name] for name in SHARED} | modules_of(handlers),
)
