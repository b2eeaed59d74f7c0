"""Lists stray directories: partition directories that a broker has renamed because they belong to no topic.

Only ottla reports stray directories. DescribeLogDirs has no field for them, so an ottla broker reports each as a log directory
whose path is a line of text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.cluster import BrokerConnections, BrokerNode
from ottla.client.errors import ClientError
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

PREFIX = "stray directory "
"""Prefix of a line about stray directories (`operations.stray_reports.LINE_PREFIX`)."""


@dataclass(slots=True, frozen=True)
class Stray:
    """A line in which a broker reports a stray directory, or the number of stray directories that have no line."""

    broker_id: int
    text: str


def strays(brokers: BrokerConnections, nodes: Iterable[BrokerNode]) -> list[Stray]:
    """Return the reports of all brokers that respond. Nothing is retried, so that a cluster with failed brokers is described
    without delay."""
    found: list[Stray] = []
    for node in nodes:
        try:
            answer = brokers.ask(brokers.node(node), DescribeLogDirsRequest(topics=[]))
        except (ClientError, OSError):
            continue
        lines = (result.log_dir for result in answer.results if not result.error_code)
        found += [Stray(node.node_id, line.removeprefix(PREFIX)) for line in lines if line.startswith(PREFIX)]
    return found
