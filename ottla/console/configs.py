"""The page ``configs``: the configs of a topic, broker or group with their defaults and documentation."""

from __future__ import annotations

import time
from typing import Any, Final

from ottla.client.admin.documented_configs import DocumentedConfig, documented_configs
from ottla.client.admin.topics import ConfigKind
from ottla.console.page_request import Asked
from ottla.control.command import CommandRefused

KINDS: Final = ("topic", "broker", "group")
INTERVAL_S: Final = 5.0
"""Interval, in seconds, at which an open page requests the configs. After an action the page requests them at once."""


def configs(asked: Asked) -> dict[str, Any]:
    """Return the configs of the resource that the query's ``kind`` and ``name`` select. A broker without a name selects the configs
    that are set for all brokers."""
    kind, name = asked.query.get("kind", ""), asked.query.get("name", "")
    if kind not in KINDS:
        raise CommandRefused(400, f"kind must be one of {', '.join(KINDS)}")
    if kind != "broker":
        name = asked.required("name")
    interval = int(time.monotonic() / INTERVAL_S)
    rows = asked.last_read.get(interval, lambda: documented_configs(asked.client().brokers, ConfigKind[kind.upper()], name))
    return {"kind": kind, "name": name, "rows": [_row(row) for row in rows]}


def _row(documented: DocumentedConfig) -> dict[str, Any]:
    config = documented.config
    return {
        "name": config.name,
        "value": config.value,
        "source": config.source,
        "is_own": config.own,
        "is_read_only": config.read_only,
        "is_sensitive": config.sensitive,
        "default": documented.default,
        "type": documented.type,
        "documentation": documented.documentation,
    }
