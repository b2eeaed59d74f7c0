"""The APIs of a controller: the handlers in this package, and handlers that it shares with brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker import handlers as broker_handlers
from ottla.broker.apis.registry import ApiRegistry, modules_of
from ottla.broker.controller import handlers
from ottla.broker.controller.services import ControllerServices

if TYPE_CHECKING:
    from ottla.broker.apis.api import Handler
    from ottla.broker.handlers import (
        add_raft_voter,
        alter_client_quotas,
        alter_configs,
        alter_user_scram_credentials,
        api_versions,
        create_acls,
        create_partitions,
        create_topics,
        delete_acls,
        delete_topics,
        describe_acls,
        describe_client_quotas,
        describe_configs,
        describe_quorum,
        describe_user_scram_credentials,
        incremental_alter_configs,
        remove_raft_voter,
        sasl_authenticate,
        sasl_handshake,
        unregister_controller,
        update_features,
    )

    # Shared handlers are loaded by name. `_CHECKED` makes mypy check that a controller has all services that the handlers need.
    _CHECKED: list[Handler[ControllerServices]] = [
        add_raft_voter.handle,
        alter_client_quotas.handle,
        alter_configs.handle,
        alter_user_scram_credentials.handle,
        api_versions.handle,
        create_acls.handle,
        create_partitions.handle,
        create_topics.handle,
        delete_acls.handle,
        delete_topics.handle,
        describe_acls.handle,
        describe_client_quotas.handle,
        describe_configs.handle,
        describe_quorum.handle,
        describe_user_scram_credentials.handle,
        incremental_alter_configs.handle,
        remove_raft_voter.handle,
        sasl_authenticate.handle,
        sasl_handshake.handle,
        unregister_controller.handle,
        update_features.handle,
    ]

SHARED = (
    "add_raft_voter",
    "alter_client_quotas",
    "alter_configs",
    "alter_user_scram_credentials",
    "api_versions",
    "create_acls",
    "create_partitions",
    "create_topics",
    "delete_acls",
    "delete_topics",
    "describe_acls",
    "describe_client_quotas",
    "describe_configs",
    "describe_quorum",
    "describe_user_scram_credentials",
    "incremental_alter_configs",
    "remove_raft_voter",
    "sasl_authenticate",
    "sasl_handshake",
    "unregister_controller",
    "update_features",
)
"""Names of the handlers that the controller shares with brokers."""

_OF_BROKERS = modules_of(broker_handlers)

CONTROLLER_APIS: ApiRegistry[ControllerServices] = ApiRegistry(
    {name: _OF_BROKERS[name] for name in SHARED} | modules_of(handlers),
)
