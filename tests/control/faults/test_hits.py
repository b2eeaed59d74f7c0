"""The requests that faults record contain no secrets."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.hooks.interception import IncomingRequest
from ottla.control.faults.hits import of_request
from ottla.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.secrets import HIDDEN
from ottla.simulation.client import api_key

SECRET = "secret password!"
"""A secret of 16 bytes, the length of ids, which are shown in hexadecimal."""


def shown(request: Any) -> dict[str, Any]:
    incoming: Any = IncomingRequest(
        api_key=api_key(request),
        version=0,
        client_id="c",
        connection_id=1,
        request=request,
        size_bytes=1,
        refusal=lambda *_: None,
        topics=None,  # type: ignore[arg-type]
    )
    hit = of_request(incoming)
    assert SECRET not in repr(hit)
    assert SECRET.encode().hex() not in repr(hit)
    return hit.request


@pytest.mark.parametrize(
    "name", ["sasl.jaas.config", "listener.name.x.ssl.keystore.key", "sasl.oauthbearer.assertion.private.key.passphrase"]
)
def test_fault_hits_hide_values_of_secret_configs(name: str) -> None:
    config = AlterableConfig(name=name, value=SECRET)
    request = IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(resource_name="1", configs=[config])])
    assert shown(request)["resources"][0]["configs"][0]["value"] == HIDDEN


def test_fault_hits_hide_credentials_in_requests() -> None:
    assert shown(SaslAuthenticateRequest(auth_bytes=SECRET.encode())) == {"auth_bytes": HIDDEN}
    made = ScramCredentialUpsertion(name="alice", mechanism=1, salt=SECRET.encode(), salted_password=SECRET.encode())
    assert shown(AlterUserScramCredentialsRequest(upsertions=[made]))["upsertions"][0]["name"] == "alice"


def test_fault_hits_show_values_that_are_not_secret() -> None:
    config = CreatableTopicConfig(name="retention.ms", value="1")
    request = CreateTopicsRequest(topics=[CreatableTopic(name="passwords", configs=[config])])
    topic = shown(request)["topics"][0]
    assert (topic["name"], topic["configs"][0]["value"]) == ("passwords", "1")
