"""Changes of a schema registry, with the responses of a registry or of a proxy before it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.client.errors import ClientError
from ottla.client.schema_registry.registry_admin import RegistryAdmin, registration
from ottla.client.schema_registry.registry_client import RegisteredSchema, Registry, RegistryClient
from ottla.client.security.http_client import HttpResponse


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], RegistryAdmin]:
    """Return a function that returns a client of a registry that responds to each request with the same body."""

    def answering(body: bytes) -> RegistryAdmin:
        monkeypatch.setattr(RegistryClient, "send", lambda *_: HttpResponse(status=200, reason="OK", body=body))
        return RegistryAdmin(RegistryClient(Registry(url="http://registry")))

    return answering


def test_registration_returns_the_id_of_the_response(admin: Callable[[bytes], RegistryAdmin]) -> None:
    assert admin(b'{"id": 7}').registered_id(registration("orders", RegisteredSchema(text='"int"'))) == 7


@pytest.mark.parametrize("body", [b"{}", b'{"id": "x"}', b"<html>", b"[]"])
def test_registration_with_a_response_of_another_program_is_a_client_error(
    admin: Callable[[bytes], RegistryAdmin], body: bytes
) -> None:
    with pytest.raises(ClientError):
        admin(body).registered_id(registration("orders", RegisteredSchema(text='"int"')))
