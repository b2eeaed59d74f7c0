"""DescribeConfigs, versions 1 to 4 (KIP-226, KIP-569): topics and this broker, with sources and synonyms."""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.config.definitions import documentation
from broker.handlers.configs import Entry, broker_entries, cluster_entries, topic_entries
from broker.handlers.each import Handled, for_each
from coordinator.cluster import BROKER_RESOURCE, TOPIC_RESOURCE, check_topic_name
from protocol.errors import Code, KafkaError
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(context: Context, request: DescribeConfigsRequest) -> Handled[DescribeConfigsResponse]:
    return for_each(
        request.resources,
        lambda resource: _describe(context, request, resource),
        lambda results: DescribeConfigsResponse(0, list(results)),
        work=500,
    )


def _describe(context: Context, request: DescribeConfigsRequest, asked: DescribeConfigsResource) -> DescribeConfigsResult:
    kind, name = asked.resource_type, asked.resource_name
    try:
        entries = _entries(context, kind, name)
    except KafkaError as error:
        return DescribeConfigsResult(error.code, error.message, kind, name)
    # No keys at all are all keys.
    wanted = set(asked.configuration_keys or ())
    shown = [_shown(entry, request) for entry in entries if not wanted or entry.name in wanted]
    return DescribeConfigsResult(0, "", kind, name, shown)


def _entries(context: Context, kind: int, name: str) -> list[Entry]:
    """Raises UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION or INVALID_REQUEST."""
    broker = context.broker
    if kind == TOPIC_RESOURCE:
        check_topic_name(name)
        broker.cluster.state.topic(name)
        return topic_entries(broker, name)
    if kind != BROKER_RESOURCE:
        raise KafkaError(Code.INVALID_REQUEST, f"Unsupported resource type {kind}")
    if not name:
        return cluster_entries(broker)
    if not (name.isascii() and name.isdigit()):
        raise KafkaError(Code.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    node_id = broker.settings.node_id
    if name != str(node_id):
        raise KafkaError(Code.INVALID_REQUEST, f"Unexpected broker id, expected {node_id} or empty string, but received {name}")
    return broker_entries(broker)


def _shown(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(*s) for s in entry.synonyms] if request.include_synonyms else [],
        config_type=entry.type,
        documentation=documentation().get((entry.scope, entry.name)) if request.include_documentation else None,
    )


def failed(request: DescribeConfigsRequest, version: int, code: Code) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        0, [DescribeConfigsResult(code, None, r.resource_type, r.resource_name) for r in request.resources]
    )


API = Declaration(32, handle, failed, is_bulky=True)
