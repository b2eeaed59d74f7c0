"""Addresses as users write them: one parser for settings, commands and Spark options, including IPv6 and zones."""

from __future__ import annotations

import pytest

from ottla.addresses import Address, bootstrap_addresses, broker_address, client_address, joined_address, split_address
from ottla.arguments import BadArgument
from ottla.broker.config.settings import connection_limits
from ottla.broker.network.listener import parse_endpoints
from ottla.client.errors import ClientError
from ottla.client.security.client_config import Connecting
from ottla.container.image import prepared

ADDRESSES = [
    ("127.0.0.1:9092", ("127.0.0.1", 9092)),
    ("Broker-1.example:9092", ("Broker-1.example", 9092)),
    ("[::1]:9092", ("::1", 9092)),
    ("[::]:9092", ("::", 9092)),
    ("[2001:DB8::1]:9092", ("2001:DB8::1", 9092)),
    ("[fe80::1%eth0]:9092", ("fe80::1%eth0", 9092)),
]
MALFORMED = [
    "::1:9092",
    "[::1]",
    "[::1:9092",
    "::1]:9092",
    "[]:9092",
    "[broker]:9092",
    "[::g]:9092",
    "a/b:9092",
    "a b:9092",
    "host:",
]


@pytest.mark.parametrize(("text", "address"), ADDRESSES)
def test_addresses_are_parsed_alike_in_settings_commands_and_spark_options(text: str, address: Address) -> None:
    assert split_address(text) == broker_address(text) == address
    assert joined_address(address) == text
    assert bootstrap_addresses(text) == bootstrap_addresses(f" {text} ") == [address]
    (endpoint,) = parse_endpoints((f"PLAINTEXT://{text}",), "listeners")
    assert ((endpoint.host, endpoint.port), str(endpoint)) == (address, text)


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_addresses_are_refused_in_settings_commands_and_spark_options(text: str) -> None:
    for parse in (split_address, broker_address, bootstrap_addresses):
        with pytest.raises(BadArgument):
            parse(text)
    with pytest.raises(ClientError):
        Connecting.parse({"kafka.bootstrap.servers": text})
    with pytest.raises(Exception, match="listeners"):
        parse_endpoints((f"PLAINTEXT://{text}",), "listeners")


def test_ipv4_client_of_a_dual_stack_socket_has_its_ipv4_address() -> None:
    assert client_address("::ffff:192.0.2.7") == "192.0.2.7"
    assert client_address("2001:db8::1") == "2001:db8::1"
    assert client_address("fe80::1%eth0") == "fe80::1%eth0"
    assert client_address("192.0.2.7") == "192.0.2.7"


def test_connection_limits_accept_ipv6_addresses() -> None:
    assert connection_limits("127.0.0.1:5,[2001:DB8:0::1]:6,::1:7") == {"127.0.0.1": 5, "2001:db8::1": 6, "::1": 7}


@pytest.mark.parametrize(("advertised", "listens"), [("[::1]:9094", "[::]:9094"), ("[2001:db8::1]:9094", "[::]:9094")])
def test_image_with_an_advertised_ipv6_address_listens_on_ipv6(advertised: str, listens: str) -> None:
    assert prepared({"KAFKA_ADVERTISED_LISTENERS": f"OUT://{advertised}"}, {})["KAFKA_LISTENERS"] == f"OUT://{listens}"
