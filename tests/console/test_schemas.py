"""Pages and actions for schemas, with a registry that has neither a broker nor a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, cast, get_args
from urllib.parse import urlsplit

import msgspec
import pytest

from ottla.client.schema_registry import registry_client
from ottla.client.schema_registry.registry_admin import Level
from ottla.client.schema_registry.registry_client import Registry
from ottla.client.security.client_config import Secret
from ottla.client.security.http_client import HttpResponse
from ottla.console import schemas
from ottla.console.actions import schemas as schema_actions
from ottla.console.actions.produce_arguments import COMMAND_BYTES
from ottla.console.actions.registry import carried_out
from ottla.console.actions.schemas import USERS_SHOWN
from ottla.console.page_request import Asked
from ottla.console.paging import ROWS_SHOWN
from ottla.console.registered_values import RegistryValues
from ottla.console.registry_requests import REQUESTS
from ottla.control.command import CommandRefused
from ottla.registry.compatibility import LEVELS
from tests.console.asking import asked_with
from tests.console.test_actions import FakeClient
from tests.registry.stored import URL, StoredRegistry, record

HOSTILE = "<img src=x>/a b#?\u202e"


class Site:
    """The pages and actions of a console with a registry."""

    def __init__(self, registry: Registry) -> None:
        self.stored = StoredRegistry()
        self.asked: list[str] = []
        self.unsupported: tuple[str, ...] = ()
        """Beginnings of paths that the registry does not support."""
        self.waiting: dict[str, threading.Barrier] = {}
        """Barriers at which requests wait, by target."""
        self._values = RegistryValues(lambda: registry)

    def ask(self, who: str, url: str, body: bytes | None, headers: Any, *, method: str | None = None) -> HttpResponse:
        target = url.removeprefix(URL)
        self.asked.append(target)
        if target in self.waiting:
            self.waiting[target].wait()
        if self.unsupported and target.startswith(self.unsupported):
            return HttpResponse(405, "Method Not Allowed", b"no such method")
        return self.stored.http(who, url, body, headers, method=method)

    def page(self, page: Callable[[Asked], dict[str, Any]], **query: str) -> dict[str, Any]:
        asked = msgspec.structs.replace(asked_with(query), registered=self._values)
        return cast(dict[str, Any], json.loads(msgspec.json.encode(page(asked))))

    def _sent(self, name: str, parameters: dict[str, Any], *, is_preview: bool) -> dict[str, Any]:
        body, client = json.dumps(parameters).encode(), lambda: cast(Any, FakeClient())
        return carried_out(name, body, client, [], is_preview=is_preview, registry=self._values.client)

    def preview(self, action: str, /, **parameters: Any) -> dict[str, Any]:
        return self._sent(action, parameters, is_preview=True)

    def act(self, action: str, /, **parameters: Any) -> str:
        return str(self._sent(action, parameters, is_preview=False)["said"])

    def refusal(self, action: str, /, **parameters: Any) -> str:
        with pytest.raises(CommandRefused) as caught:
            self.preview(action, **parameters)
        assert "\n" not in str(caught.value)
        return str(caught.value)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(Registry(URL))
    monkeypatch.setattr(registry_client, "ask", made.ask)
    return made


def order(*fields: str) -> str:
    return json.dumps(record("Order", *(f"{field}:long" for field in fields)))


def test_schemas_page_lists_subjects_with_their_latest_version_in_pages(site: Site) -> None:
    for number in range(ROWS_SHOWN + 5):
        site.stored.register(f"topic-{number:03}-value", '"int"')
    site.stored.register("topic-000-value", '"long"')
    site.stored.ask("DELETE", "/subjects/topic-001-value")
    shown = site.page(schemas.schemas)
    assert (shown["url"], shown["level"], shown["part"]["total"], len(shown["part"]["rows"])) == (URL, "BACKWARD", 105, ROWS_SHOWN)
    first, second = shown["part"]["rows"][:2]
    assert first == {"subject": "topic-000-value", "is_deleted": False, "problem": "", "version": 2, "id": 2, "kind": "AVRO"}
    assert (second["is_deleted"], second["version"]) == (True, 1)
    assert [row["subject"] for row in site.page(schemas.schemas, match="-104-")["part"]["rows"]] == ["topic-104-value"]
    assert len(site.page(schemas.schemas, start="100")["part"]["rows"]) == 5


def test_pages_of_schemas_send_independent_requests_at_the_same_time(site: Site) -> None:
    """The requests of a group wait for each other: one after the other, the first would fail."""
    site.stored.register("customer", json.dumps(record("Customer")))
    references = [{"name": "Customer", "subject": "customer", "version": 1}]
    for number in range(REQUESTS):
        text = {**record("Order"), "doc": str(number), "fields": [{"name": "by", "type": "Customer"}]}
        site.stored.register(f"orders-{number}", text, references=references)
    subject = "/subjects/customer/versions"
    site.waiting = {
        **together(subject, f"{subject}?deleted=true", "/config", "/config/customer"),
        **together(f"{subject}/1?deleted=true", f"{subject}/1/referencedby"),
        **together(*(f"/schemas/ids/{number}/versions" for number in range(2, REQUESTS + 2))),
    }
    assert len(site.page(schemas.subject, name="customer")["shown"]["users"]) == REQUESTS
    assert len(site.asked) == len(set(site.asked)) == 6 + REQUESTS
    site.waiting = together("/subjects", "/subjects?deleted=true", "/config")
    assert site.page(schemas.schemas)["part"]["total"] == REQUESTS + 1


def together(*targets: str) -> dict[str, threading.Barrier]:
    barrier = threading.Barrier(len(targets), timeout=60)
    return dict.fromkeys(targets, barrier)


def test_schemas_page_shows_a_subject_that_the_registry_hides(site: Site) -> None:
    site.stored.register("a", '"int"')
    site.stored.register("b", '"int"')
    site.unsupported = ("/subjects/a/versions",)
    first, second = site.page(schemas.schemas)["part"]["rows"]
    assert (second["version"], "refused the request (405): no such method" in first["problem"]) == (1, True)


def test_subject_page_shows_schema_references_users_and_versions(site: Site) -> None:
    site.stored.register("customer-value", json.dumps({**record("Customer"), "namespace": "acme"}))
    text = json.dumps({**record("Order"), "fields": [{"name": "by", "type": "acme.Customer"}]})
    references = [{"name": "acme.Customer", "subject": "customer-value", "version": 1}]
    site.stored.register("orders-value", text, references=references)
    shown = site.page(schemas.subject, name="orders-value")
    assert (shown["level"], shown["global_level"], shown["shown"]["kind"], shown["shown"]["id"]) == (None, "BACKWARD", "AVRO", 2)
    assert shown["shown"]["text"].startswith('{\n  "type": "record"')
    assert (shown["shown"]["references"], shown["shown"]["users"]) == (references, [])
    assert site.page(schemas.subject, name="customer-value")["shown"]["users"] == [{"id": 2, "versions": [["orders-value", 1]]}]
    site.stored.register("customer-value", json.dumps({**record("Customer"), "namespace": "acme", "doc": "x"}))
    site.stored.ask("DELETE", "/subjects/customer-value/versions/2")
    latest = site.page(schemas.subject, name="customer-value")
    assert latest["part"]["rows"] == [{"version": 2, "is_deleted": True}, {"version": 1, "is_deleted": False}]
    assert latest["shown"]["version"] == 1
    assert site.page(schemas.subject, name="customer-value", version="2")["shown"]["is_deleted"]


def test_subject_page_shows_the_first_users_of_a_version(site: Site) -> None:
    site.stored.register("customer", json.dumps(record("Customer")))
    text = {**record("Order"), "fields": [{"name": "by", "type": "Customer"}]}
    references = [{"name": "Customer", "subject": "customer", "version": 1}]
    for number in range(schemas.USERS_SHOWN + 5):
        site.stored.register(f"same-{number:02}", text, references=references)
        site.stored.register("other", {**text, "doc": str(number)}, references=references)
    shown = site.page(schemas.subject, name="customer")["shown"]
    assert (len(shown["users"]), shown["more_users"]) == (schemas.USERS_SHOWN, 6)
    assert [len(user["versions"]) for user in shown["users"]] == [schemas.USERS_SHOWN, *[1] * (schemas.USERS_SHOWN - 1)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"name": "nope"}, "unknown subject 'nope'"),
        ({"name": "a", "version": "7"}, "unknown version 7 of subject 'a'"),
        ({"name": "a", "version": "-1"}, "version must be a number"),
        ({}, "name is missing"),
    ],
)
def test_subject_page_reports_what_does_not_exist(site: Site, query: dict[str, str], message: str) -> None:
    site.stored.register("a", '"int"')
    with pytest.raises(CommandRefused, match=message):
        site.page(schemas.subject, **query)


def test_subject_page_shows_the_beginning_of_a_long_schema(site: Site) -> None:
    site.stored.register("a", json.dumps({"type": "object", "description": "x" * 300_000}), schemaType="JSON")
    shown = site.page(schemas.subject, name="a")["shown"]
    assert (len(shown["text"]), shown["characters"] > 300_000) == (schemas.SHOWN_CHARACTERS, True)


def test_schemas_are_registered_after_a_compatibility_check(site: Site) -> None:
    preview = site.preview("register-schema", subject="orders-value", text=order("id"))
    assert preview["rows"] == [["orders-value", "none", "BACKWARD", "is compatible"]]
    assert preview["command"].startswith("curl -X POST -H 'Content-Type: application/json' -d '{\"schema\": ")
    assert preview["command"].endswith(f" {URL}/subjects/orders-value/versions")
    said = site.act("register-schema", subject="orders-value", text=order("id"))
    assert said == "subject orders-value has the schema as version 1, with the schema id 1"
    assert "has this schema already, as version 1" in site.refusal("register-schema", subject="orders-value", text=order("id"))
    refused = site.refusal("register-schema", subject="orders-value", text=order("id", "other"))
    assert refused.startswith(
        "the schema is not compatible with subject 'orders-value' (level BACKWARD): the new schema cannot read"
    )
    with pytest.raises(CommandRefused, match="incompatible with an earlier schema"):
        site.act("register-schema", subject="orders-value", text=order("id", "other"))
    assert site.stored.ask("GET", "/subjects/orders-value/versions") == [1]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("  ", "AVRO", "the schema has no text"),
        ("{", "AVRO", "refused the request (422)"),
        ("message {", "PROTOBUF", "refused the request (422)"),
        ('{"type": 7}', "JSON", "refused the request (422)"),
        ("[" * 50_000, "AVRO", "refused the request (422)"),
    ],
)
def test_invalid_schema_is_refused_in_one_line(site: Site, text: str, kind: str, message: str) -> None:
    assert message in site.refusal("register-schema", subject="a", text=text, kind=kind)


def test_compatibility_is_checked_with_the_latest_version_by_older_registries(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.act("register-schema", subject="a", text=order("id"))
    stored_ask = site.ask

    def ask(who: str, url: str, body: bytes | None, headers: Any, *, method: str | None = None) -> HttpResponse:
        if urlsplit(url).path == "/compatibility/subjects/a/versions":
            return HttpResponse(405, "Method Not Allowed", b"")
        return stored_ask(who, url, body, headers, method=method)

    monkeypatch.setattr(registry_client, "ask", ask)
    assert "is not compatible" in site.refusal("register-schema", subject="a", text=order("id", "other"))


def test_versions_and_subjects_are_deleted_softly_and_then_permanently(site: Site) -> None:
    site.act("set-compatibility", level="NONE")
    for text in ('"int"', '"long"'):
        site.act("register-schema", subject="a", text=text)
    one: dict[str, Any] = {"subject": "a", "version": 1}
    assert "is not soft-deleted; delete it softly first" in site.refusal("delete-schema-version", **one, is_permanent=True)
    preview = site.preview("delete-schema-version", **one)
    assert (preview["rows"], preview["command"]) == ([["a", 1, 1, "AVRO"]], f"curl -X DELETE {URL}/subjects/a/versions/1")
    assert "values with the schema id 1 can still be decoded" in preview["warning"]
    site.act("delete-schema-version", **one)
    assert "is soft-deleted already" in site.refusal("delete-schema-version", **one)
    preview = site.preview("delete-schema-version", **one, is_permanent=True)
    assert "can no longer be decoded" in preview["warning"]
    assert preview["command"] == f"curl -X DELETE '{URL}/subjects/a/versions/1?permanent=true'"
    site.act("delete-schema-version", **one, is_permanent=True)
    assert "unknown version 1 of subject 'a'" in site.refusal("delete-schema-version", **one)
    assert "is not soft-deleted" in site.refusal("delete-subject", subject="a", is_permanent=True)
    assert site.preview("delete-subject", subject="a")["rows"] == [[2]]
    site.act("delete-subject", subject="a")
    assert "is soft-deleted already" in site.refusal("delete-subject", subject="a")
    assert site.preview("delete-subject", subject="a", is_permanent=True)["rows"] == [[2]]
    site.act("delete-subject", subject="a", is_permanent=True)
    assert "unknown subject 'a'" in site.refusal("delete-subject", subject="a")


def test_version_to_which_another_schema_refers_is_not_deleted(site: Site) -> None:
    site.stored.register("customer", json.dumps(record("Customer")))
    text = json.dumps({**record("Order"), "fields": [{"name": "by", "type": "Customer"}]})
    site.act("register-schema", subject="order", text=text, references=[{"name": "Customer", "subject": "customer", "version": 1}])
    refused = site.refusal("delete-schema-version", subject="customer", version=1)
    assert refused == (
        "the registry refuses to delete version 1 of subject 'customer', because other schemas refer to it: version 1 is used by"
        " version 1 of 'order'; delete these versions first"
    )
    site.act("delete-schema-version", subject="order", version=1)
    assert site.preview("delete-schema-version", subject="customer", version=1)["rows"]


def test_subject_to_whose_versions_other_schemas_refer_is_not_deleted(site: Site) -> None:
    site.act("set-compatibility", level="NONE")
    for version in (1, 2, 3):
        site.stored.register("customer", json.dumps(record("Customer", "a:int", doc=str(version))))
    text = {**record("Order"), "fields": [{"name": "by", "type": "Customer"}]}
    for subject, version in (("order", 1), ("basket", 3), ("invoice", 3)):
        references = [{"name": "Customer", "subject": "customer", "version": version}]
        site.stored.register(subject, json.dumps({**text, "doc": subject}), references=references)
    refused = site.refusal("delete-subject", subject="customer")
    assert refused == (
        "the registry refuses to delete subject 'customer', because other schemas refer to it: version 1 is used by version 1 of"
        " 'order', version 3 is used by version 1 of 'basket', version 3 is used by version 1 of 'invoice'; delete these versions"
        " first"
    )
    with pytest.raises(CommandRefused, match=r"\(422\): One or more references exist"):
        site.act("delete-subject", subject="customer")
    assert site.stored.ask("GET", "/subjects/customer/versions") == [1, 2, 3]
    for subject in ("order", "basket", "invoice"):
        site.act("delete-subject", subject=subject)
    assert site.preview("delete-subject", subject="customer")["rows"] == [[1], [2], [3]]


def test_preview_sends_no_request_for_references_after_its_deadline(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.stored.register("customer", json.dumps(record("Customer")))
    monkeypatch.setattr(schema_actions, "CHECK_TIMEOUT_S", 0.0)
    refused = site.refusal("delete-subject", subject="customer")
    assert refused == ("the registry did not say within 0 s whether other schemas refer to subject 'customer'; try again later")


def test_many_schemas_that_refer_to_a_deleted_subject_are_counted(site: Site) -> None:
    site.stored.register("customer", json.dumps(record("Customer")))
    text = {**record("Order"), "fields": [{"name": "by", "type": "Customer"}]}
    for number in range(USERS_SHOWN + 2):
        references = [{"name": "Customer", "subject": "customer", "version": 1}]
        site.stored.register(f"order-{number}", json.dumps({**text, "doc": str(number)}), references=references)
    assert f"'order-{USERS_SHOWN - 1}', and 2 more schemas; delete" in site.refusal("delete-subject", subject="customer")
    # Some registries do not list the versions of a schema.
    site.unsupported = ("/schemas/ids/",)
    assert "version 1 is used by schema id 2, version 1 is" in site.refusal("delete-subject", subject="customer")


def test_compatibility_level_is_set_for_a_subject_or_the_registry(site: Site) -> None:
    assert set(get_args(Level)) == set(LEVELS)
    preview = site.preview("set-compatibility", subject="a", level="FULL")
    assert preview["rows"] == [["a", "BACKWARD, of the registry", "FULL"]]
    assert preview["command"].endswith(
        f"curl -X PUT -H 'Content-Type: application/json' -d '{{\"compatibility\": \"FULL\"}}' {URL}/config/a"
    )
    assert site.act("set-compatibility", subject="a", level="FULL") == "subject a has the compatibility level FULL"
    assert site.preview("set-compatibility", subject="a", level="FULL")["rows"] == [["a", "FULL", "FULL"]]
    assert site.preview("set-compatibility", subject="a", level=None)["rows"] == [["a", "FULL", "BACKWARD, of the registry"]]
    site.act("set-compatibility", subject="a", level=None)
    assert "has no level of its own" in site.refusal("set-compatibility", subject="a", level=None)
    site.act("set-compatibility", level="NONE")
    assert site.stored.ask("GET", "/config") == {"compatibilityLevel": "NONE"}
    assert "give one" in site.refusal("set-compatibility", level=None)
    assert "invalid enum value" in site.refusal("set-compatibility", level="SIDEWARDS")


def test_hostile_subject_is_quoted_in_paths_and_commands(site: Site) -> None:
    name = HOSTILE.replace("\u202e", "")
    site.act("register-schema", subject=name, text='"int"')
    assert site.page(schemas.subject, name=name)["shown"]["id"] == 1
    assert (
        site.preview("delete-subject", subject=name)["command"]
        == f"curl -X DELETE {URL}/subjects/%3Cimg%20src%3Dx%3E%2Fa%20b%23%3F"
    )
    site.act("register-schema", subject="..", text='"int"')
    assert site.preview("delete-subject", subject="..")["command"] == f"curl -X DELETE --path-as-is {URL}/subjects/.."
    assert "is not a subject" in site.refusal("register-schema", subject=HOSTILE, text='"int"')


def test_schema_too_large_for_a_command_has_no_equivalent_command(site: Site) -> None:
    text = json.dumps({"type": "object", "description": "x" * COMMAND_BYTES})
    preview = site.preview("register-schema", subject="a", text=text, kind="JSON")
    assert (preview["command"], "there is no equivalent command" in preview["warning"]) == ("", True)


@pytest.mark.parametrize(
    ("registry", "shown"),
    [
        (Registry(URL, user="me", password=Secret("very secret")), "-u me "),
        (Registry(URL, token=Secret("very secret")), "--oauth2-bearer TOKEN "),
    ],
)
def test_equivalent_command_of_a_schema_action_has_no_secret(
    registry: Registry, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(registry)
    monkeypatch.setattr(registry_client, "ask", site.ask)
    effects = site.preview("set-compatibility", level="NONE")
    assert (shown in effects["command"], "very secret" in str(effects)) == (True, False)


def test_preview_of_an_encoded_record_shows_its_schemas_and_the_command(site: Site) -> None:
    site.stored.register("k", '"string"')
    site.stored.register("v", order("id"))
    schemas_of = {"key_schema": {"subject": "k"}, "value_schema": {"subject": "v", "version": 1}}
    preview = site.preview("produce", topic="orders", key='"a"', value='{"id": 1}', **schemas_of)
    assert list(preview["columns"]) == ["part", "subject", "version", "schema id", "type", "bytes"]
    assert preview["rows"] == [["key", "k", 1, 1, "AVRO", 7], ["value", "v", 1, 2, "AVRO", 6]]
    assert preview["confirmed"] == {
        name: {"subject": subject, "version": 1} for name, subject in zip(schemas_of, "kv", strict=True)
    }
    text = """ottla produce --key '"a"' --value '{"id": 1}' --key-schema k:1 --value-schema v:1 --registry"""
    assert preview["command"] == f"{text} {URL} orders"
    tombstone = site.preview("produce", topic="orders", key='"a"', value=None, **schemas_of)
    assert ([row[0] for row in tombstone["rows"]], "--value-schema" in tombstone["command"]) == (["key"], False)
    without_key = site.preview("produce", topic="orders", value='{"id": 1}', **schemas_of)
    assert ([row[0] for row in without_key["rows"]], "--key-schema" in without_key["command"]) == (["value"], False)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"value": '{"id": "x"}', "value_schema": {"subject": "v"}}, "a value does not match the schema"),
        ({"value": "", "value_schema": {"subject": "v"}}, "a value is not JSON"),
        ({"value": "v", "key": "1", "key_schema": {"subject": "k"}}, "a key does not match the schema"),
        ({"value": "v", "key": "a", "key_schema": {"subject": "k"}}, "a key is not JSON"),
        ({"value": "{}", "value_schema": {"subject": "v", "version": 9}}, "has no version 9 of subject 'v'"),
        ({"value": "{}", "value_schema": {"subject": "../v"}}, "has no version of subject '../v'"),
        ({"value": "{}", "value_schema": {"subject": ""}}, "expected a text of length >= 1"),
        ({"value": "{}", "value_schema": {"subject": "v", "version": 2**31}}, "expected a whole number"),
    ],
)
def test_record_that_does_not_fit_its_schema_is_refused_in_one_line(site: Site, record: dict[str, Any], message: str) -> None:
    site.stored.register("k", '"string"')
    site.stored.register("v", order("id"))
    assert message in site.refusal("produce", topic="orders", **record)


def test_schema_action_without_a_registry_is_refused() -> None:
    with pytest.raises(CommandRefused, match="this console has no schema registry"):
        carried_out("set-compatibility", b'{"level": "NONE"}', lambda: cast(Any, FakeClient()), [], is_preview=True)
    encoded = b'{"topic": "t", "value": "1", "value_schema": {"subject": "v"}}'
    with pytest.raises(CommandRefused, match="this console has no schema registry"):
        carried_out("produce", encoded, lambda: cast(Any, FakeClient()), [], is_preview=False)
    with pytest.raises(CommandRefused, match="this console has no schema registry"):
        schemas.schemas(asked_with())
