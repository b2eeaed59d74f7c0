"""Pages and dialogs for schemas and for encoded records in a headless Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ottla import Broker
from ottla.client.schema_registry.registry_client import PROTOBUF, Registry, RegistryClient
from tests.console.test_acting_in_browser import CONFIRM, choose, command, confirm, dialog
from tools.browser import Browser

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.xdist_group("browser")]

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
PAYMENT = 'syntax = "proto3";\nmessage Payment { int64 cents = 1; }\n'


@pytest.fixture(scope="module")
def registry_broker() -> Iterator[Broker]:
    with Broker(schema_registry=True, settings={"ottla.console": True}) as broker:
        yield broker


@pytest.fixture
def client(registry_broker: Broker) -> RegistryClient:
    registry_broker.reset()
    return RegistryClient(Registry(registry_broker.schema_registry_url))


@pytest.fixture
def opened(browser: Browser, registry_broker: Broker, client: RegistryClient) -> Iterator[Browser]:
    browser.enter(registry_broker.ready["console"])
    yield browser
    # The preview of an incomplete form may be refused.
    assert [line for line in browser.complaints() if "/previews/" not in line] == []
    assert registry_broker._control().get("/v1/state")["unexpected_errors"] == 0


def test_schema_is_registered_changed_and_deleted_in_the_browser(opened: Browser) -> None:
    opened.show("schemas")
    dialog(opened, "register-schema")
    opened.write("#act-subject", "orders-value")
    opened.write("#act-text", SCHEMA)
    opened.wait_for_text("curl -X POST -H 'Content-Type: application/json' -d '{\"schema\": ")
    confirm(opened)
    opened.wait_for_text("Subject orders-value has the schema as version 1, with the schema id 1.")
    opened.wait("document.body.dataset.page === 'subject' && document.querySelector('.schema')")
    dialog(opened, "register-schema")
    opened.wait_for_text("has this schema already, as version 1")
    opened.write("#act-text", SCHEMA.replace("long", "string"))
    opened.wait_for_text("is not compatible with subject 'orders-value' (level BACKWARD)")
    assert opened.script(f"return document.querySelector('{CONFIRM}').disabled")
    opened.press("ESCAPE")
    dialog(opened, "set-compatibility")
    choose(opened, "#act-level", "NONE")
    confirm(opened)
    opened.wait_for_text("Subject orders-value has the compatibility level NONE.")
    dialog(opened, "register-schema")
    opened.write("#act-text", SCHEMA.replace("long", "string"))
    confirm(opened)
    opened.wait_for_text("as version 2")
    opened.wait("document.querySelectorAll('#live tbody a[href*=version]').length === 2")
    dialog(opened, "delete-schema-version")
    confirm(opened)
    opened.wait_for_text("Version 2 of subject orders-value was deleted.")
    opened.wait("document.querySelector('[data-act=delete-schema-version]')?.innerText === 'delete this version permanently'")
    opened.click("[data-act=delete-schema-version]")
    confirm(opened)
    opened.wait_for_text("Version 2 of subject orders-value was deleted permanently.")
    opened.wait("document.body.dataset.page === 'schemas' && document.querySelector('#live tbody a[href*=orders]')")
    opened.click("#live tbody a[href*=orders]")
    for how in ("", " permanently"):
        opened.wait(f"document.querySelector('[data-act=delete-subject]')?.innerText === 'delete the subject{how}'")
        opened.click("[data-act=delete-subject]")
        confirm(opened)
        opened.wait_for_text(f"Subject orders-value was deleted{how}.")
    opened.wait("document.body.dataset.page === 'schemas' && document.body.dataset.draws > 0")
    opened.wait("!document.querySelector('#live tbody a[href*=orders]')")


def test_hostile_subjects_and_schemas_are_shown_as_text_in_the_browser(opened: Browser, client: RegistryClient) -> None:
    name = "<img src=x onerror='window.harmed = 1'>/../?#"
    client.register("customer", json.dumps({"type": "record", "name": "Customer", "fields": []}))
    client.register(name, json.dumps({"type": "record", "name": "Order", "doc": "</pre><img src=x>\u202e", "fields": []}))
    opened.show("schemas")
    opened.click("#live tbody a[href*=img]")
    opened.wait("document.querySelector('.schema')")
    assert "\\u202e" in opened.script("return document.querySelector('.schema').textContent").lower()
    dialog(opened, "delete-subject")
    opened.wait_for_text(f"Delete subject {name}")
    confirm(opened)
    opened.wait_for_text("was deleted.")
    assert opened.script("return document.querySelectorAll('img').length") == 0
    assert opened.script("return window.harmed") is None


def test_record_is_encoded_by_schemas_in_the_browser(opened: Browser, registry_broker: Broker, client: RegistryClient) -> None:
    registry_broker.create_topic("orders", 1)
    client.register("orders-key", '"string"')
    client.register("orders-value", PAYMENT, PROTOBUF)
    opened.show("topic?name=orders")
    dialog(opened, "produce")
    suggested = "[...document.querySelectorAll('#values-valueSchema option')].map((one) => one.value).join()"
    opened.wait(f"{suggested} === 'orders-key,orders-value'")
    opened.write("#act-valueSchema", "orders-value:1")
    opened.write("#act-value", '{"cents": "x"}')
    opened.wait_for_text("a value does not match the schema")
    opened.write("#act-value", '{"cents": 125}')
    opened.write("#act-key", '"a"')
    opened.write("#act-keySchema", "orders-key")
    opened.wait("document.querySelectorAll('#act .preview tbody tr').length === 2")
    options = f"--key-schema orders-key:1 --value-schema orders-value:1 --registry {registry_broker.schema_registry_url}"
    assert command(opened) == f"""ottla produce --key '"a"' --value '{{"cents": 125}}' {options} orders"""
    confirm(opened)
    opened.wait_for_text("The record was written to orders:0 at offset 0.")
    opened.click("#notice a")
    opened.wait("document.body.dataset.page === 'messages'")
    opened.wait_for_text('{"cents":"125"}')
    opened.show("topic?name=orders")
    dialog(opened, "produce")
    opened.write("#act-value", "plain")
    assert command(opened) == "ottla produce --value plain orders"
    assert opened.script("return document.querySelectorAll('#act .preview tbody tr').length") == 0
    opened.press("ESCAPE")
