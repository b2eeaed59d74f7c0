"""The choice of API versions for requests to a peer."""

from __future__ import annotations

import pytest

from ottla.broker.peers.versions import Versions, decode_greeting, greeting_after, key_of
from ottla.protocol.codec import API_VERSIONS_KEY, api, response_parts
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.metadata import MetadataRequest

FETCH = 1


def offering(*ranges: tuple[int, int, int]) -> Versions:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in ranges]
    return Versions(ApiVersionsResponse(api_keys=keys))


def test_newest_common_api_version_is_chosen() -> None:
    own = APIS[FETCH]
    assert offering((FETCH, 0, 99)).choose(FETCH) == own.max_version
    assert offering((FETCH, 0, own.max_version - 2)).choose(FETCH) == own.max_version - 2


def test_choice_of_an_api_version_respects_minimum_and_maximum() -> None:
    versions = offering((FETCH, 4, 13))
    assert versions.choose(FETCH, most=12) == 12
    assert versions.choose(FETCH, least=13) == 13
    assert versions.choose(FETCH, least=14) is None
    assert versions.choose(FETCH, most=3) is None


@pytest.mark.parametrize("offered", [(FETCH, 90, 99), (FETCH, 0, 2), (9_999, 0, 1)])
def test_choice_without_a_common_api_version_returns_none(offered: tuple[int, int, int]) -> None:
    versions = offering(offered)
    assert versions.choose(FETCH) is None
    assert versions.choose(9_999) is None


@pytest.mark.parametrize("version", range(6))
def test_api_versions_response_is_decoded_in_its_version(version: int) -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=FETCH, min_version=4, max_version=17)])
    frame = b"".join(response_parts(api(API_VERSIONS_KEY), version, 5, response))[4:]
    correlation_id, decoded = decode_greeting(version, frame)
    assert (correlation_id, decoded.api_keys[0].max_version) == (5, 17)


def test_unsupported_api_versions_request_is_retried_in_a_listed_version() -> None:
    known = [ApiVersion(api_key=API_VERSIONS_KEY, min_version=0, max_version=4)]
    refusal = ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION, api_keys=known)
    frame = b"".join(response_parts(api(API_VERSIONS_KEY), 0, 5, refusal))[4:]
    _, decoded = decode_greeting(5, frame)
    assert greeting_after(decoded) == 4


def test_api_versions_falls_back_to_version_0() -> None:
    assert greeting_after(ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION)) == 0


def test_type_of_a_peer_request_determines_its_api_key() -> None:
    assert (key_of(FetchRequest()), key_of(MetadataRequest())) == (1, 3)
