"""Changes of a schema registry, with the responses of a registry or of a proxy before it."""

from __future__ import annotations

from typing import cast

import pytest

from ottla.client.errors import ClientError
from ottla.client.schema_registry.registry_admin import RegistryAdmin, registration
from ottla.client.schema_registry.registry_client import RegisteredSchema, Registry, RegistryClient
from ottla.client.security.http_client import HttpResponse


class Answering:
    """Responds to each request with the same body."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.registry = Registry(url="http://registry")

    def send(self, path: str, body: bytes | None = None, method: str | None = None) -> HttpResponse:
        return HttpResponse(status=200, reason="OK", body=self._body)


def admin(body: bytes) -> RegistryAdmin:
    return RegistryAdmin(cast(RegistryClient, Answering(body)))


def test_registration_returns_the_id_of_the_response() -> None:
    assert admin(b'{"id": 7}').registered_id(registration("orders", RegisteredSchema(text='"int"'))) == 7


@pytest.mark.parametrize("body", [b"{}", b'{"id": "x"}', b"<html>", b"[]"])
def test_registration_with_a_response_of_another_program_is_a_client_error(body: bytes) -> None:
    with pytest.raises(ClientError):
        admin(body).registered_id(registration("orders", RegisteredSchema(text='"int"')))
