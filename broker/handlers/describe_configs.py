"""DescribeConfigs, versions 1 to 4 (KIP-226, KIP-569): topics and this broker, with sources and synonyms."""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.handlers.configs import broker_entries, check_resource, cluster_entries, topic_entries
from coordinator.cluster import TOPIC_RESOURCE
from protocol.errors import Code, KafkaError
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(context: Context, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(0, [_describe(context, r, request.include_synonyms) for r in request.resources])


def _describe(context: Context, asked: DescribeConfigsResource, with_synonyms: bool) -> DescribeConfigsResult:
    broker = context.broker
    kind, name = asked.resource_type, asked.resource_name
    try:
        check_resource(broker, kind, name)
    except KafkaError as error:
        return DescribeConfigsResult(error.code, error.message, kind, name)
    if kind == TOPIC_RESOURCE:
        entries = topic_entries(broker, name)
    else:
        entries = broker_entries(broker) if name else cluster_entries(broker)
    wanted = None if asked.configuration_keys is None else set(asked.configuration_keys)
    return DescribeConfigsResult(
        0,
        None,
        kind,
        name,
        [
            DescribeConfigsResourceResult(
                e.name,
                None if e.is_sensitive else e.value,
                e.read_only,
                e.source,
                e.is_sensitive,
                [DescribeConfigsSynonym(*s) for s in e.synonyms] if with_synonyms else [],
                e.type,
                None,
            )
            for e in entries
            if wanted is None or e.name in wanted
        ],
    )


def failed(request: DescribeConfigsRequest, version: int, code: Code) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        0, [DescribeConfigsResult(code, None, r.resource_type, r.resource_name) for r in request.resources]
    )


API = Declaration(32, handle, failed)
