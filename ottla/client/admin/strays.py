"""The stray directories of a cluster's brokers, which were set aside because they belong to no topic. Only ottla reports them.

DescribeLogDirs has no field for them, so a broker sends this client a line of text for each, in place of a log directory's path.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.cluster import BrokerConnections, BrokerNode
from ottla.client.errors import ClientError
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

PREFIX = "stray directory "
"""Prefix of these lines (`operations.stray_reports.LINE_PREFIX`)."""


@dataclass(slots=True, frozen=True)
class Stray:
    """A broker's report of a stray directory, or of all those that it does not name."""

    broker_id: int
    text: str


def strays(brokers: BrokerConnections, nodes: Iterable[BrokerNode]) -> list[Stray]:
    """Return the reports of those brokers that respond. Each gets one request, so that the description of a failing cluster is not
    delayed."""
    found: list[Stray] = []
    for node in nodes:
        try:
            answer = brokers.ask(brokers.node(node), DescribeLogDirsRequest(topics=[]))
        except (ClientError, OSError):
            continue
        lines = (result.log_dir for result in answer.results if not result.error_code)
        found += [Stray(node.node_id, line.removeprefix(PREFIX)) for line in lines if line.startswith(PREFIX)]
    return found
