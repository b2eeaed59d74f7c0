"""Every API is declared in one file, and the declarations, dispatch and ApiVersions agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.broker import handlers
from ottla.broker.apis.authorisation import AclOperation, Authorisation, ResourceType, authorisations
from ottla.broker.handlers.registry import SERVED, declaration, offered_versions
from ottla.protocol import messages
from ottla.protocol.secrets import SECRET_FIELDS
from tools import apis

FOLDER = Path(handlers.__path__[0])
MESSAGES = Path(messages.__path__[0])
ASKED_BY_ANYBODY = {17, 18, 36, 39, 40}
"""APIs that need no authorization. SaslHandshake, ApiVersions and SaslAuthenticate are sent before a client is authenticated. The
owner and the renewers of a delegation token may renew and expire it without any ACL."""


def test_every_offered_api_has_one_declaration_in_its_own_file() -> None:
    declaring = {path.stem for path in FOLDER.glob("*.py") if "Declaration(" in path.read_text()}
    assert declaring == set(SERVED.values())
    assert [key for key, _, _ in offered_versions()] == list(SERVED)
    for key, file in SERVED.items():
        assert declaration(key).key == key
        text = (FOLDER / f"{file}.py").read_text()
        assert text.count("Declaration(") == 1


@pytest.mark.parametrize("key", SERVED)
def test_docstrings_of_api_modules_name_the_served_versions(key: int) -> None:
    declared = declaration(key)
    head = (FOLDER / f"{SERVED[key]}.py").read_text().partition("\n")[0]
    first, newest = declared.min_version, declared.max_version(unstable=True)
    versions = {0: f"version {first}", 1: f"versions {first} and {newest}"}.get(newest - first, f"versions {first} to {newest}")
    assert re.match(rf'"""{declared.name}, {versions}\b', head), head


@pytest.mark.parametrize("key", SERVED)
def test_api_declares_the_same_authorization_as_kafka(key: int) -> None:
    declared = declaration(key).authorisation
    assert all(type(pair) is Authorisation for pair in declared)
    assert len(set(declared)) == len(declared)
    assert bool(declared) == (key not in ASKED_BY_ANYBODY)


@pytest.mark.parametrize("key", SERVED)
def test_api_with_a_field_for_a_secret_is_declared_with_secrets(key: int) -> None:
    fields = set(re.findall(r"^    (\w+): ", (MESSAGES / f"{SERVED[key]}.py").read_text(), re.MULTILINE))
    assert declaration(key).has_secrets or not fields & SECRET_FIELDS


def test_declared_authorizations_of_apis_use_kafkas_names() -> None:
    assert authorisations("WRITE TRANSACTIONAL_ID, READ GROUP") == (
        Authorisation(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
        Authorisation(AclOperation.READ, ResourceType.GROUP),
    )
    with pytest.raises(KeyError):
        authorisations("LOOK AT")


@pytest.mark.parametrize("key", SERVED)
def test_api_versions_response_has_the_declared_versions_of_each_api(key: int) -> None:
    declared = declaration(key)
    for unstable in (False, True):
        offered = {k: (low, high) for k, low, high in offered_versions(unstable=unstable)}[key]
        # As in Kafka, ApiVersions lists Produce from version 0, because librdkafka needs it. Versions below 3 are refused.
        assert offered == (0 if key == 0 else declared.min_version, declared.max_version(unstable=unstable))


def test_api_documentation_page_is_up_to_date() -> None:
    """If this test fails, run `python -m tools.apis` to rewrite the page."""
    assert apis.TARGET.read_text() == apis.page()
    assert "|  |" not in apis.page(), "the first line of a module docstring does not describe the API"


def test_advertised_api_versions_are_those_of_apache_kafka() -> None:
    # Response of Apache Kafka 4.4.0 to ApiVersions.
    kafka = {
        0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
        13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 5), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5),
        23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 6), 29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4),
        33: (0, 2), 34: (1, 2), 35: (1, 5), 36: (0, 2), 37: (0, 3), 38: (1, 3), 39: (1, 2), 40: (1, 2), 41: (1, 3), 42: (0, 3),
        43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2),
        57: (0, 2), 60: (0, 2), 61: (0, 0), 64: (0, 0), 65: (0, 0), 66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0),
        76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2),
        80: (0, 1), 81: (0, 0), 83: (0, 0), 84: (0, 0), 85: (0, 1), 86: (0, 0), 87: (0, 1), 88: (0, 1),
        89: (0, 1), 90: (0, 1), 91: (0, 0), 92: (0, 0), 93: (0, 0), 94: (0, 0),
    }  # fmt: skip
    assert {key: (low, high) for key, low, high in offered_versions()} == kafka
