"""Every config name that Apache Kafka knows, with type and default, and how values are read."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

TOPIC, DYNAMIC = "T", "D"
"""Scopes in keys.txt, beside B for a broker key that is read at the start only."""

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigError(Exception):
    """A setting that cannot be used; the text is one line for a person."""


@dataclass(slots=True, frozen=True)
class Definition:
    """One config key. ``synonyms`` are the broker keys a topic key falls back to, first wins.

    ``is_dynamic``: a broker key that may be set while the broker runs (DynamicBrokerConfig.AllDynamicConfigs).
    """

    name: str
    type: str
    default: str | None
    synonyms: tuple[str, ...] = ()
    is_dynamic: bool = False

    def parse(self, text: str) -> Value:
        """The typed value. Raises `ConfigError`."""
        text = text.strip()
        try:
            return _READERS[self.type](text)
        except (ValueError, KeyError):
            raise ConfigError(f"{self.name}: {text!r} is not a {self.type.lower()}") from None


OWN = (
    Definition("ottla.durability", "STRING", "process"),
    Definition("ottla.metrics.host", "STRING", "127.0.0.1"),
    Definition("ottla.metrics.port", "INT", None),
)
"""Keys that Kafka does not have. Metrics are served where a port is given; 0 takes a free one. Durability is ``process``,
what was acknowledged survives a kill, or ``power``, it survives a power cut."""


def _bool(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _bounded(bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ValueError(text)
        return value

    return read


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_READERS: dict[str, Callable[[str], Value]] = {
    "BOOLEAN": _bool,
    "INT": _bounded(32),
    "SHORT": _bounded(16),
    "LONG": _bounded(64),
    "DOUBLE": float,
    "LIST": _list,
    "STRING": str,
    "PASSWORD": str,
    "CLASS": str,
}


@cache
def _tables() -> tuple[dict[str, Definition], dict[str, Definition]]:
    broker: dict[str, Definition] = {}
    topic: dict[str, Definition] = {}
    text = files("broker.config").joinpath("keys.txt").read_text()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        scope, name, kind, default, *synonyms = line.split(" ")
        value = {"<null>": None, "<required>": None, "<empty>": ""}.get(default, default)
        definition = Definition(name, kind, value, tuple(synonyms[0].split(",")) if synonyms else (), scope == DYNAMIC)
        (topic if scope == TOPIC else broker)[name] = definition
    broker |= {definition.name: definition for definition in OWN}
    return broker, topic


def broker_definitions() -> dict[str, Definition]:
    return _tables()[0]


def topic_definitions() -> dict[str, Definition]:
    return _tables()[1]


def unknown(name: str, known: dict[str, Definition]) -> ConfigError:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return ConfigError(f"unknown setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
