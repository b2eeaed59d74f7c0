"""Scenario commands that change configs of topics, groups and brokers, and feature levels."""

from __future__ import annotations

from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.scenarios.verbs import verb
from tests.scenarios.world import TIMEOUT_MS, Words, World, name_of
from tests.support import oracle

DEAD_LETTERS = "errors.deadletterqueue.topic.name"


def _alter(world: World, kind: int, name: str, changes: dict[str, str | None]) -> str:
    configs = [AlterableConfig(name=k, config_operation=0 if v is not None else 1, value=v) for k, v in changes.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)])
    code = world.call(request).responses[0].error_code
    if code:
        return name_of(code)
    if world.target == "kafka":
        oracle.config_shown(world, kind, name, changes)
        world.wait_up_to_date()
    return ""


@verb
def config(world: World, words: Words) -> str:
    """Set configs of a topic. Command: ``config t some.config=value``."""
    return _alter(world, 2, world.real(words.plain[0]), dict(words.options))


@verb
def group_config(world: World, words: Words) -> str:
    """Set configs of a group.

    Command: ``group_config g streams.num.standby.replicas=1``. ``=default`` deletes a config. The name of a dead-letter topic gets
    the case's prefix.
    """
    changes = {k: None if v == "default" else world.real(v) if k == DEAD_LETTERS else v for k, v in words.options.items()}
    return _alter(world, 32, world.real(words.plain[0]), changes)


@verb
def broker_config(world: World, words: Words) -> str:
    """Set configs of all brokers; ``=default`` deletes a config. Command: ``broker_config some.config=value``."""
    return _alter(world, 4, "", {k: None if v == "default" else v for k, v in words.options.items()})


@verb
def hold(world: World, words: Words) -> str:
    """Make a topic refuse every batch, including markers and coordinators' records.

    Command: ``hold t``. It sets the topic's max.message.bytes to 1. A marker refused for this reason is not sent again before a
    restart, and its transaction stays prepared.
    """
    world.held.add(words.plain[0])
    return _alter(world, 2, world.real(words.plain[0]), {"max.message.bytes": "1"})


@verb
def release(world: World, words: Words) -> str:
    """Let a topic accept batches again after ``hold``. Command: ``release t``. Transactions that stayed prepared are completed
    after the next restart.
    """
    if words.plain[0].startswith("__"):
        world.held.discard(words.plain[0])
    return _alter(world, 2, world.real(words.plain[0]), {"max.message.bytes": None})


@verb
def feature(world: World, words: Words) -> str:
    """Set a feature level by UpdateFeatures.

    Command: ``feature transaction.version=1 kind=3``. ``kind`` is 1 for an upgrade, 2 for a safe downgrade, and 3 for an unsafe
    downgrade.
    """
    kind = int(words.options.pop("kind"))
    updates = [FeatureUpdateKey(feature=k, max_version_level=int(v), upgrade_type=kind) for k, v in words.options.items()]
    answer = world.call(UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=updates, validate_only=False))
    if world.target == "kafka" and answer.error_code == 0:
        oracle.feature_shown(world, {k: int(v) for k, v in words.options.items()})
        world.wait_up_to_date()
    return "" if answer.error_code == 0 else name_of(answer.error_code)
