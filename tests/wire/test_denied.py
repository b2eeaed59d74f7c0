"""``ottla why`` names the requests of a user that ACLs have denied, with the rule and what to do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ottla import Broker
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.wire

USER = "User:ANONYMOUS"


def why(broker: Broker, *arguments: str) -> str:
    control = broker.ready["control"]
    command = [sys.executable, "-m", "ottla", "why", *arguments, "--url", control["url"], "--token", control["token"]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_denied_requests_of_a_user_are_explained() -> None:
    with Broker(settings={"authorizer.class.name": "StandardAuthorizer"}) as broker:
        assert why(broker, USER) == f"no request of {USER} was denied since the broker started\n"
        topics = [ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition()])]
        with RawClient(broker.bootstrap) as client:
            for _ in range(2):
                client.call(ListOffsetsRequest(replica_id=-1, topics=topics))
        what, do = why(broker, USER).splitlines()
        assert what.startswith(f"{USER} was denied DESCRIBE on topic orders 2 times, last ")
        assert do == f"no ACL allows it; allow it: kafka-acls --add --allow-principal {USER} --operation Describe --topic orders"
        (denial,) = json.loads(why(broker, USER, "--json"))["denials"]
        assert (denial["times"], denial["denied_by"]) == (2, None)
