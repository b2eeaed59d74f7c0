"""UpdateFeatures, versions 0 to 2 (KIP-584): raises and lowers finalized feature levels, all or none of a request.

- 1 (KIP-778): the request may only validate, and has an upgrade type instead of a flag that allows downgrades.
- 2 (KIP-1022): the response has one error for the whole request.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.metadata.cluster import SUPPORTED_FEATURES, ClusterCommands
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
METADATA_VERSION = "metadata.version"


class Ports(Protocol):
    cluster: ClusterCommands


async def handle(ports: Ports, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    cluster = ports.cluster
    levels: dict[str, int] = {}
    try:
        for update in request.feature_updates:
            current = cluster.state.features.get(update.feature, 0)
            _check(update, _kind(update, context.version), current)
            levels[update.feature] = update.max_version_level
    except KafkaError as error:
        reason = f"The update failed for all features since the following feature had an error: {error.message}"
        return UpdateFeaturesResponse(throttle_time_ms=0, error_code=error.code, error_message=reason)
    if not request.validate_only:
        cluster.set_features(levels)
    return UpdateFeaturesResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        results=[UpdatableFeatureResult(feature=name, error_code=0, error_message="NONE") for name in levels],
    )


def _kind(update: FeatureUpdateKey, version: int) -> int:
    if version >= 1:
        return update.upgrade_type
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE


def _check(update: FeatureUpdateKey, kind: int, current: int) -> None:
    """Raise INVALID_UPDATE_VERSION for an invalid update (FeatureControlManager.updateFeature)."""
    name, level = update.feature, update.max_version_level
    low, high = SUPPORTED_FEATURES.get(name, (0, -1))
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        reason = "The controller does not support the given upgrade type."
    elif level < 0:
        reason = "A feature version cannot be less than 0."
    elif not low <= level <= high:
        reason = f"this broker supports levels {low} to {high}" if name in SUPPORTED_FEATURES else "the feature is unknown"
    elif level < current and kind == UPGRADE:
        reason = "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
    elif level > current and kind != UPGRADE:
        reason = "Can't downgrade to a newer version."
    elif level < current and name == METADATA_VERSION:
        reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    else:
        return
    raise KafkaError(Code.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {reason}")


def failed(request: UpdateFeaturesRequest, version: int, code: Code) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(throttle_time_ms=0, error_code=code, error_message=None)


API = Declaration(
    key=57,
    handle=handle,
    failed=failed,
    authorisation=authorisations("ALTER CLUSTER"),
)
