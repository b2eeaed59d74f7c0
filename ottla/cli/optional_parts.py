"""The parts that ``ottla serve`` starts beside a broker: the control API, a manual clock, faults, the schema registry, and the
check whether the broker's parent process still runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.commands import Refused
from ottla.process import OwnerProcess

if TYPE_CHECKING:
    from ottla.broker.config.first_user import FirstUser
    from ottla.broker.config.settings import BrokerConfig
    from ottla.broker.process.optional_parts import OptionalParts
    from ottla.broker.process.serving import Serving
    from ottla.console.registered_values import RegistryValues
    from ottla.control.clock import ManualClock
    from ottla.control.faults.registry import Fault
    from ottla.registry.server import SchemaRegistry

STILL_DEFAULTS = {
    **{f"group.{kind}.assignment.interval.ms": "0" for kind in ("consumer", "share", "streams")},
    "log.message.timestamp.type": "LogAppendTime",
}
"""Defaults for a manual clock. An interval between assignments would never pass while the clock is stopped, and after the clock was
advanced, records with the client's time would be expired on arrival."""
MACHINE = "machine"


@dataclass(slots=True, frozen=True, kw_only=True)
class Start:
    """The arguments with which a broker, a controller or a cluster is started."""

    config: BrokerConfig
    features: dict[str, int]
    warnings: dict[str, str | None]
    """Settings without effect, each with the setting that was probably meant."""
    first_users: list[FirstUser]
    remove_when_ready: Path | None
    """The file of first users, if the first successful start must remove it."""
    faults_file: Path | None
    owner: OwnerProcess | None
    ready_file: Path | None
    as_json: bool
    log_level: str


def with_still_defaults(config: BrokerConfig) -> BrokerConfig:
    """Return the config with `STILL_DEFAULTS` for settings that are not given."""
    from ottla.broker.config.settings import BrokerConfig

    return BrokerConfig({**STILL_DEFAULTS, **config.given})


def optional_parts(
    clock: str, faults_file: Path | None, owner: OwnerProcess | None, *, has_control_api: bool, has_registry: bool = False
) -> OptionalParts:
    """Create the control API, clock, faults and schema registry that the options select. Only the modules of selected parts are
    imported. Raises `Refused`."""
    from ottla.broker.process.optional_parts import OptionalParts

    manual = _clock(clock)
    if manual is not None and not has_control_api:
        raise Refused("--clock manual needs the control API, which advances the clock; give --control-port", exit_code=1)
    opened: list[SchemaRegistry] = []

    def open_registry(serving: Serving) -> SchemaRegistry:
        from ottla.registry.server import SchemaRegistry

        opened.append(SchemaRegistry(serving))
        return opened[0]

    open_schema_registry = open_registry if has_registry else None
    if not has_control_api and faults_file is None:
        return OptionalParts(owner=owner, open_schema_registry=open_schema_registry)
    from ottla.control.faults.registry import Faults

    faults, first = Faults(), _first_faults(faults_file)

    def begin() -> None:
        for fault in first:
            faults.add(fault)

    if not has_control_api:
        return OptionalParts(begin=begin, owner=owner, interception=faults, open_schema_registry=open_schema_registry)
    from ottla.control.command import ControlledBroker
    from ottla.control.history import EventHistory
    from ottla.control.http_api import ControlServer

    history = EventHistory()

    def open_control_api(serving: Serving) -> ControlServer:
        controlled = ControlledBroker(serving=serving, clock=manual, faults=faults, history=history)
        settings = serving.broker.settings
        if not settings.ottla_console:
            return ControlServer(controlled)
        from ottla.console.site import Console

        registered = _registered_values(opened) if has_registry else None
        return ControlServer(controlled, Console(registered=registered, is_read_only=settings.ottla_console_read_only))

    return OptionalParts(
        begin=begin,
        open_control_api=open_control_api,
        open_schema_registry=open_schema_registry,
        owner=owner,
        clock=manual,
        interception=faults,
        transaction_listener=history,
    )


def _registered_values(opened: list[SchemaRegistry]) -> RegistryValues:
    """Return a decoder that looks up the registry's URL later, because the registry opens after the console."""
    from ottla.client.schema_registry.registry_client import Registry
    from ottla.client.security.client_config import Secret
    from ottla.console.registered_values import RegistryValues

    return RegistryValues(lambda: Registry(opened[0].url, token=Secret(opened[0].token or "")))


def _clock(text: str) -> ManualClock | None:
    """Parse the option for the clock. Returns None for the machine's clock."""
    if text == MACHINE:
        return None
    kind, colon, start = text.partition(":")
    if kind != "manual" or (colon and not (start.isascii() and start.isdigit() and len(start) < 16)):
        raise Refused(f"--clock {text!r} is not machine, manual, or manual:MS with milliseconds since 1970", exit_code=1)
    from ottla.control.clock import ManualClock

    return ManualClock(int(start) if start else None)


def _first_faults(file: Path | None) -> list[Fault]:
    from ottla.control.faults.registry import MAX_FAULTS, FaultError, parse_faults

    if file is None:
        return []
    try:
        faults = parse_faults(file.read_bytes())
    except OSError as error:
        raise Refused(f"--faults {file}: {error.strerror or error}", exit_code=1) from None
    except FaultError as error:
        raise Refused(f"--faults {file}: {error}", exit_code=1) from None
    if len(faults) > MAX_FAULTS:
        raise Refused(f"--faults {file} has {len(faults):,} faults; at most {MAX_FAULTS} are allowed", exit_code=1)
    return faults
