"""BrokerRegistration, versions 0 to 4 (KIP-631): a broker registers itself when it starts, and gets its epoch.

- 1 (KIP-866): the request says whether the broker migrates from ZooKeeper, which is refused.
- 2 (KIP-858): the request has the ids of the broker's log directories.
- 3 (KIP-966): the request has the broker's epoch before its last clean stop.
- 4 (KAFKA-17011): the lowest supported level of a feature may be 0.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.controller.services import ControllerDeclaration
from ottla.coordinator.controller.registrations import Registering
from ottla.coordinator.metadata.broker_registration import ListenerEndpoint
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

MAX_LISTENERS = 100
MAX_FEATURES = 1_000
MAX_DIRECTORIES = 100
"""Upper bound on the log directories in a registration."""


class Ports(Protocol):
    controller: ControllerMetadata


async def handle(ports: Ports, request: BrokerRegistrationRequest, context: RequestContext) -> BrokerRegistrationResponse:
    limits = ((request.listeners, MAX_LISTENERS), (request.features, MAX_FEATURES), (request.log_dirs, MAX_DIRECTORIES))
    if any(len(named) > most for named, most in limits):
        raise KafkaError(Code.INVALID_REGISTRATION)
    epoch = ports.controller.register_broker(
        Registering(
            broker_id=request.broker_id,
            cluster_id=request.cluster_id,
            incarnation_id=request.incarnation_id,
            listeners=tuple(
                ListenerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in request.listeners
            ),
            features={f.name: (f.min_supported_version, f.max_supported_version) for f in request.features},
            rack=request.rack,
            is_migrating_zk_broker=request.is_migrating_zk_broker,
            directories=tuple(request.log_dirs),
            previous_broker_epoch=request.previous_broker_epoch,
        )
    )
    return BrokerRegistrationResponse(throttle_time_ms=0, error_code=0, broker_epoch=epoch)


def failed(request: BrokerRegistrationRequest, version: int, code: Code) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(throttle_time_ms=0, error_code=code)


API = ControllerDeclaration(key=62, handle=handle, failed=failed, authorisation=authorisations("CLUSTER_ACTION CLUSTER"))
