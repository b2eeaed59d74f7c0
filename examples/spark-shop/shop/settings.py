"""The settings, from defaults, a TOML file and the environment. The file overrides defaults; the environment overrides both.

A setting's variable is ``SHOP_`` and the setting's name in capitals. The address of the cluster is ``OTTLA_BOOTSTRAP``, as for the
commands of ottla. ``SHOP_KAFKA_SASL_MECHANISM`` and the like set the options of the table ``kafka``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

PREFIX: Final = "SHOP_"
KAFKA_PREFIX: Final = "SHOP_KAFKA_"
VARIABLES: Final = {"OTTLA_BOOTSTRAP": "bootstrap"}
CONFIG: Final = "SHOP_CONFIG"
"""Variable with the path of the TOML file."""


class WrongSetting(Exception):
    """A setting that cannot be used. The message contains the setting's file or variable, and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of all jobs.

    ``name`` is the beginning of the transactional ids; two deployments on one cluster need two names. ``kafka`` has further options
    of the connections, by Kafka's names. Without ``master`` the master of spark-submit is used, or ``cores`` cores of this machine.
    ``batch_records`` limits a batch for each topic. A payment counts for an order if it comes within ``pay_within_minutes``. An
    event's time may be ahead of its record's timestamp by ``max_ahead_minutes``, because a record of the year 3000 would make all
    later records late.
    """

    bootstrap: str = "127.0.0.1:9092"
    name: str = "shop"
    checkpoints: str = ".shop/checkpoints"
    master: str = ""
    cores: int = 2
    batch_records: int = 300
    interval_ms: int = 1_000
    partitions: int = 3
    watermark_minutes: int = 30
    window_minutes: int = 60
    pay_within_minutes: int = 60
    max_ahead_minutes: int = 60
    transaction_timeout_ms: int = 300_000
    kafka: Mapping[str, str] = field(default_factory=dict)

    @property
    def connection(self) -> dict[str, str]:
        """The ``kafka.*`` options that both Spark's Kafka source and the sinks need to connect to the brokers."""
        options = {f"kafka.{name}": value for name, value in self.kafka.items()}
        return {**options, "kafka.bootstrap.servers": self.bootstrap}

    def checkpoint(self, job: str) -> str:
        return f"{self.checkpoints.rstrip('/')}/{job}"

    def transactional_id(self, job: str, sink: str) -> str:
        return f"{self.name}.{job}.{sink}"


def read(path: str | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings. Raises `WrongSetting`."""
    path = path or environment.get(CONFIG)
    settings = Settings()
    if path:
        settings = replace(settings, **_from_file(Path(path)))
    return replace(settings, **_from_environment(environment, settings.kafka))


def _from_file(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise WrongSetting(f"{path}: {error}") from error
    return {name: _checked(name, value, f"{path}: {name}") for name, value in table.items()}


def _from_environment(environment: Mapping[str, str], kafka: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    options = dict(kafka)
    for variable, text in environment.items():
        if variable.startswith(KAFKA_PREFIX):
            options[variable.removeprefix(KAFKA_PREFIX).lower().replace("_", ".")] = text
        elif variable in VARIABLES or (variable.startswith(PREFIX) and variable != CONFIG):
            name = VARIABLES.get(variable) or variable.removeprefix(PREFIX).lower()
            if variable not in VARIABLES and name in VARIABLES.values():
                raise WrongSetting(f"unknown variable {variable}: did you mean OTTLA_BOOTSTRAP?")
            values[name] = _checked(name, text, f"${variable}")
    return {**values, "kafka": options}


_KINDS: Final = {one.name: {"str": str, "int": int}.get(str(one.type), dict) for one in fields(Settings)}
_MAY_BE_EMPTY: Final = ("master",)


def _checked(name: str, value: object, where: str) -> Any:
    if name not in _KINDS:
        close = get_close_matches(name, _KINDS, 1)
        raise WrongSetting(f"{where}: unknown setting{f'; did you mean {close[0]}?' if close else ''}")
    kind = _KINDS[name]
    if kind is int:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise WrongSetting(f"{where} is {value!r}; expected a number from 1")
    elif kind is dict:
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise WrongSetting(f'{where} is {value!r}; expected a table of texts, such as {{"security.protocol" = "SSL"}}')
    elif not isinstance(value, str) or not (value.strip() or name in _MAY_BE_EMPTY):
        raise WrongSetting(f"{where} is {value!r}; expected a text")
    return value
