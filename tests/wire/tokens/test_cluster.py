"""Delegation tokens in clusters of ottla and Apache Kafka: every broker knows the tokens that any broker has created."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.testing.cluster_handle import CONTROLLER
from tests.support.waiting import wait_until
from tests.wire.secured import LOGIN
from tests.wire.secured_nodes import SecuredNodes
from tests.wire.tokens.brokers import Addresses
from tests.wire.tokens.commands import Story
from tools.kafka import Unavailable
from tools.kafka_cluster import ApacheKafkas

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.entry("TOK-15", "TOK-17")]

PROTOCOL = "SASL_PLAINTEXT"
WITH_TOKENS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    f"listener.name.{PROTOCOL.lower()}.scram-sha-256.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "delegation.token.secret.key": "the key of the cluster",
}


@pytest.mark.parametrize(
    "ottla_nodes",
    [
        pytest.param((CONTROLLER, 1, 2), id="ottla"),
        pytest.param((1,), id="controller of Kafka", marks=pytest.mark.java),
        pytest.param((CONTROLLER, 1), id="controller of ottla", marks=pytest.mark.java),
    ],
)
def test_delegation_token_created_at_one_broker_authenticates_at_every_other_broker(
    tmp_path: Path, ottla_nodes: tuple[int, ...]
) -> None:
    nodes = SecuredNodes(tmp_path, PROTOCOL)
    settings = {**nodes.settings(), **WITH_TOKENS}
    cluster = ApacheKafkas(tmp_path / "nodes", 2, settings=settings, ottla_nodes=ottla_nodes, between=PROTOCOL)
    try:
        cluster.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    try:
        for creator, other in ((1, 2), (2, 1)):
            of_creator = Story(Addresses(cluster.address(creator), cluster.secured(creator)), nodes.passwords)
            of_other = Story(Addresses(cluster.address(other), cluster.secured(other)), nodes.passwords)
            assert of_creator.run("alice: create token=T").startswith("NONE owner=User:alice")
            of_other.adopt(of_creator, "T")
            assert of_other.run("alice: describe").startswith("NONE [T User:alice by User:alice for - ~86400000]")
            for story in (of_creator, of_other):
                assert story.run("tokened: login token=T") == "NONE session=~86400000"
                assert story.run("tokened: metadata") == "answered=True"
            # Apache Kafka's controller may know a token later than its brokers.
            wait_until(lambda: of_other.run("alice: renew token=T period=60000") == "NONE expires=~60000")  # noqa: B023
            assert of_other.run("alice: expire token=T") == "NONE expires=~0"
            for story in (of_creator, of_other):
                wait_until(lambda: story.run("tokened: login token=T").startswith("SASL_AUTHENTICATION_FAILED"))  # noqa: B023
                story.close()
    finally:
        cluster.close()
