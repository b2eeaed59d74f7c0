"""Registrations of brokers and controllers, replayed from the metadata log."""

from __future__ import annotations

from typing import Any

import msgspec

from ottla.coordinator.metadata.metadata_records import CORDONED_DIRECTORIES, metadata_record, record_version
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import DecodeError

UNKNOWN_OFFSET = -1


class ListenerEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The address of one listener of a broker or controller."""

    name: str
    host: str
    port: int
    security_protocol: int


Listeners = tuple[ListenerEndpoint, ...]
SupportedFeatures = dict[str, tuple[int, int]]
"""The lowest and highest level of each feature that a node supports."""


class BrokerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """The registration of one broker (org.apache.kafka.metadata.BrokerRegistration)."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    """An id that changes with each start of the broker's process."""
    listeners: Listeners
    features: SupportedFeatures
    rack: str | None = None
    is_fenced: bool = True
    """A fenced broker leads no partition and is not shown to clients."""
    is_in_controlled_shutdown: bool = False
    directories: tuple[bytes, ...] = ()
    """The ids of the broker's online log directories, sorted."""
    cordoned_directories: tuple[bytes, ...] = ()
    """The `directories` that get no new partitions (KIP-1066)."""

    @property
    def is_active(self) -> bool:
        return not self.is_fenced and not self.is_in_controlled_shutdown

    def to_record(self, metadata_version: int) -> LogRecord:
        """Encode the registration for a level of ``metadata.version``."""
        # The record's module is imported here, because a cluster of one broker starts without it.
        from ottla.protocol.messages import register_broker_record as registering

        version = record_version(registering, metadata_version)
        message = registering.RegisterBrokerRecord(
            broker_id=self.broker_id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.broker_epoch,
            end_points=[
                registering.BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in self.listeners
            ],
            features=[
                registering.BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in self.features.items()
            ],
            rack=self.rack,
            fenced=self.is_fenced,
            in_controlled_shutdown=self.is_in_controlled_shutdown,
            log_dirs=list(self.directories),
            cordoned_log_dirs=list(self.cordoned_directories) if metadata_version >= CORDONED_DIRECTORIES else None,
        )
        return metadata_record(registering, message, version)


class ControllerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """One controller of the quorum (org.apache.kafka.metadata.ControllerRegistration)."""

    controller_id: int
    incarnation_id: bytes
    listeners: Listeners
    features: SupportedFeatures

    def to_record(self) -> LogRecord:
        from ottla.protocol.messages import register_controller_record as controller

        message = controller.RegisterControllerRecord(
            controller_id=self.controller_id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=False,
            end_points=[
                controller.ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in self.listeners
            ],
            features=[
                controller.ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in self.features.items()
            ],
        )
        return metadata_record(controller, message)


class Registrations:
    def __init__(self) -> None:
        self.brokers: dict[int, BrokerRegistration] = {}
        self.controllers: dict[int, ControllerRegistration] = {}
        self.record_offsets: dict[int, int] = {}
        """Broker id -> offset of its registration record. A broker is unfenced only when it has read the log up to this offset."""

    def snapshot(self, metadata_version: int) -> list[LogRecord]:
        """Return records that restore all registrations."""
        brokers = [self.brokers[broker_id].to_record(metadata_version) for broker_id in sorted(self.brokers)]
        return brokers + [self.controllers[controller_id].to_record() for controller_id in sorted(self.controllers)]

    # replaying records of registrations

    def replay_broker(self, message: Any, offset: int) -> None:
        self.brokers[message.broker_id] = BrokerRegistration(
            broker_id=message.broker_id,
            broker_epoch=message.broker_epoch,
            incarnation_id=message.incarnation_id,
            listeners=_listeners(message.end_points),
            features=_features(message.features),
            rack=message.rack,
            is_fenced=message.fenced,
            is_in_controlled_shutdown=message.in_controlled_shutdown,
            directories=tuple(sorted(message.log_dirs)),
            cordoned_directories=tuple(sorted(message.cordoned_log_dirs or ())),
        )
        self.record_offsets[message.broker_id] = offset

    def replay_removal(self, message: Any) -> None:
        self._of_epoch(message.broker_id, message.broker_epoch)
        del self.brokers[message.broker_id]
        self.record_offsets.pop(message.broker_id, None)

    def replay_fencing(self, message: Any, *, is_fenced: bool) -> None:
        before = self._of_epoch(message.id, message.epoch)
        self.brokers[message.id] = msgspec.structs.replace(before, is_fenced=is_fenced)

    def replay_change(self, message: Any) -> None:
        """Apply a BrokerRegistrationChangeRecord. In its fields ``fenced`` and ``in_controlled_shutdown`` 0 means unchanged, and 1
        means true; -1 means unfenced."""
        before = self._of_epoch(message.broker_id, message.broker_epoch)
        if message.fenced not in (-1, 0, 1) or message.in_controlled_shutdown not in (0, 1):
            raise DecodeError(f"the registration change of broker {message.broker_id} has an unknown value")
        cordoned = message.cordoned_log_dirs
        self.brokers[message.broker_id] = msgspec.structs.replace(
            before,
            is_fenced=message.fenced == 1 if message.fenced else before.is_fenced,
            is_in_controlled_shutdown=before.is_in_controlled_shutdown or message.in_controlled_shutdown == 1,
            directories=tuple(sorted(message.log_dirs)) or before.directories,
            cordoned_directories=before.cordoned_directories if cordoned is None else tuple(sorted(cordoned)),
        )

    def replay_controller(self, message: Any) -> None:
        self.controllers[message.controller_id] = ControllerRegistration(
            controller_id=message.controller_id,
            incarnation_id=message.incarnation_id,
            listeners=_listeners(message.end_points),
            features=_features(message.features),
        )

    def replay_controller_removal(self, message: Any) -> None:
        if self.controllers.pop(message.controller_id, None) is None:
            raise DecodeError(f"the record removes controller {message.controller_id}, which is not registered")

    def _of_epoch(self, broker_id: int, broker_epoch: int) -> BrokerRegistration:
        registration = self.brokers.get(broker_id)
        if registration is None or registration.broker_epoch != broker_epoch:
            raise DecodeError(f"the record changes broker {broker_id} with epoch {broker_epoch}, which is not registered")
        return registration


def _listeners(end_points: list[Any]) -> Listeners:
    return tuple(ListenerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol) for e in end_points)


def _features(features: list[Any]) -> SupportedFeatures:
    return {f.name: (f.min_supported_version, f.max_supported_version) for f in features}
