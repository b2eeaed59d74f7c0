"""Reads what brokers report about their log directories: stray directories, offline directories and logs, and damaged segments.

A stray directory is a partition directory that a broker has renamed because it belongs to no topic. Only ottla reports stray
directories and single logs. DescribeLogDirs has no field for them, so an ottla broker reports each as a log directory whose path is
a line of text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.cluster import BrokerConnections, BrokerNode
from ottla.client.errors import ClientError
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.remedies import name_of

PREFIX = "stray directory "
"""Prefix of a line about stray directories (`operations.stray_reports.LINE_PREFIX`)."""


@dataclass(slots=True, frozen=True)
class Stray:
    """A line in which a broker reports a stray directory, or the number of further stray directories."""

    broker_id: int
    text: str


@dataclass(slots=True, frozen=True)
class DirectoryReports:
    """The reports of all brokers. ``problems`` has a line for each log directory that its broker cannot use, and for each log that
    is offline or damaged."""

    strays: list[Stray]
    problems: list[str]


def directory_reports(brokers: BrokerConnections, nodes: Iterable[BrokerNode]) -> DirectoryReports:
    """Return the reports of all brokers that respond. Requests are not retried, so that failed brokers cause no delay. ottla
    reports problems of logs only to ``ottla health`` and the console."""
    found = DirectoryReports(strays=[], problems=[])
    for node in nodes:
        try:
            answer = brokers.ask(brokers.node(node), DescribeLogDirsRequest(topics=[]))
        except (ClientError, OSError):
            continue
        for result in answer.results:
            if result.error_code:
                # ``log_dir`` is an absolute path, or a line of text by which ottla reports a problem.
                is_path = result.log_dir.startswith("/")
                text = f"cannot use {result.log_dir} ({name_of(result.error_code)})" if is_path else result.log_dir
                found.problems.append(f"broker {node.node_id}: {text}")
            elif result.log_dir.startswith(PREFIX):
                found.strays.append(Stray(node.node_id, result.log_dir.removeprefix(PREFIX)))
    return found
