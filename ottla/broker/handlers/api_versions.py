"""ApiVersions, versions 0 to 5 (KIP-35): lists the APIs with their versions, and the levels of the features.

- 3 (KIP-511, KIP-584): the request has the client's software name and version; the response has features.
- 4 (KAFKA-17011): a feature's lowest level may be 0. Version 3 omits such features, because its clients cannot parse a 0.
- 5 (KIP-1242): the request has the cluster and node that the client expects; a client that reached another broker rebootstraps.

An unknown version gets UNSUPPORTED_VERSION in version 0, so that a newer client can retry with an older version.
"""

from __future__ import annotations

import re
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import UNRESTRICTED
from ottla.broker.apis.services import OfferedApis
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.metadata.cluster import SUPPORTED_FEATURES
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.protocol.codec import API_VERSIONS_KEY
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

NAMES_BROKER_FROM = 5
NO_NODE = -1
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class FinalizedFeatures(Protocol):
    @property
    def state(self) -> ClusterState: ...

    @property
    def features_epoch(self) -> int: ...


class Ports(Protocol):
    cluster_id: str
    live_config: LiveConfig

    @property
    def cluster(self) -> FinalizedFeatures: ...

    @property
    def apis(self) -> OfferedApis: ...


async def handle(ports: Ports, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    try:
        _check(ports, request, context.version)
    except KafkaError as error:
        return ApiVersionsResponse(error.code)
    features = ports.cluster.state.features
    supported = {name: (low, high) for name, (low, high) in SUPPORTED_FEATURES.items() if context.version >= 4 or low > 0}
    return ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, low, high in ports.apis.offered_versions(unstable=ports.live_config.settings.unstable_api_versions_enable)
        ],
        throttle_time_ms=0,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high) for name, (low, high) in supported.items()
        ],
        finalized_features_epoch=ports.cluster.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(features.items())
            if level > 0
        ],
    )


def _check(ports: Ports, request: ApiVersionsRequest, version: int) -> None:
    names = (request.client_software_name, request.client_software_version)
    if version >= 3 and not all(_SOFTWARE.fullmatch(name) for name in names):
        raise KafkaError(Code.INVALID_REQUEST)
    if version < NAMES_BROKER_FROM:
        return
    # A request must have both cluster id and node id, or neither.
    if (request.cluster_id is None) != (request.node_id == NO_NODE):
        raise KafkaError(Code.INVALID_REQUEST)
    own = (ports.cluster_id, ports.live_config.settings.node_id)
    if request.cluster_id is not None and (request.cluster_id, request.node_id) != own:
        raise KafkaError(Code.REBOOTSTRAP_REQUIRED)


def failed(request: ApiVersionsRequest | None, version: int, code: Code) -> ApiVersionsResponse:
    own = ApiVersion(api_key=API.key, min_version=API.min_version, max_version=API.max_version(unstable=False))
    return ApiVersionsResponse(error_code=code, api_keys=[own])


API = Declaration(
    key=API_VERSIONS_KEY,
    handle=handle,
    failed=failed,
    authorisation=UNRESTRICTED,
)
