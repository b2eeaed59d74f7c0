"""The check of the Host header: names of the broker and addresses are accepted, names of other sites are not."""

from __future__ import annotations

import pytest

from ottla.http.host_header import HostRefused, check_host


@pytest.mark.parametrize("host", ["evil.example:9095", "", "127.0.0.1.evil.example", "[::1", "localhost.evil", "a@b"])
def test_http_server_refuses_an_unknown_name_in_the_host_header(host: str) -> None:
    with pytest.raises(HostRefused):
        check_host(host, "127.0.0.1", {"broker.example"})
    check_host("Broker.example:9095", "127.0.0.1", {"broker.example"})


@pytest.mark.parametrize("host", ["127.0.0.1:9095", "localhost", "LOCALHOST:1", "[::1]:9095", "192.0.2.7", "ottla.test:80"])
def test_host_header_may_be_an_address_or_the_host_name_of_the_machine(host: str) -> None:
    check_host(host, "ottla.test")


@pytest.mark.parametrize("served", ["0.0.0.0", "::", "", "192.0.2.7"])
def test_http_server_in_a_container_accepts_container_names_in_the_host_header(served: str) -> None:
    for host in ("ottla:9095", "host.docker.internal:9095", "localhost:9095", "172.17.0.2"):
        check_host(host, served)
    with pytest.raises(HostRefused):
        check_host("evil.example:9095", served)


@pytest.mark.parametrize("served", ["127.0.0.1", "::1", "localhost"])
def test_http_server_on_a_loopback_address_refuses_names_in_the_host_header(served: str) -> None:
    for host in ("ottla:9095", "host.docker.internal:9095", "internal", ""):
        with pytest.raises(HostRefused):
            check_host(host, served)
