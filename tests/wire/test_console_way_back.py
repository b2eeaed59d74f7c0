"""A limit of connections that lets no client in is undone in the console of the broker."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla import Broker
from tests.support.waiting import wait_until
from tests.wire.test_console_elsewhere import Site

pytestmark = pytest.mark.wire


def set_limit(site: Site, key: str, value: str | None) -> None:
    parameters = {"kind": "broker", "name": "", "key": key, "value": value}
    answer = site.request("POST", "/console/actions/set-config", json.dumps(parameters))
    assert answer.status == 200, answer.read()


@pytest.mark.parametrize("key", ["max.connections", "max.connections.per.ip"])
def test_console_raises_a_limit_of_no_connections(key: str) -> None:
    with Broker(settings={"ottla.console": True}) as broker:
        broker.create_topic("orders", 1)
        site = Site(broker.ready["console"])
        set_limit(site, key, "0")

        def is_locked_out() -> bool:
            try:
                AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(timeout=2)
            except KafkaException:
                return True
            return False

        wait_until(is_locked_out)
        assert [row["name"] for row in site.values("topics")["part"]["rows"]] == ["orders"]
        set_limit(site, key, None)
        assert "orders" in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).topics
