"""Takes the screenshots for docs/console.md while a small shop runs: ``python -m tools.console_pictures``.

``--to DIR`` takes pictures of all pages and of a dialog, to look at before a change of the pages is published: in both themes, on a
wide and on a narrow screen, unless ``--theme`` or ``--width`` names one.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer
from PIL import Image

from ottla import Broker
from ottla.client.schema_registry.registry_admin import RegistryAdmin, level_change, subject_deletion
from ottla.client.schema_registry.registry_client import AVRO, JSON, PROTOBUF, Registry, RegistryClient, SchemaReference
from tools.browser import HEIGHT, WIDTH, Browser, Unavailable

ROOT: Final = Path(__file__).parent.parent
TIMEOUT_S: Final = 30.0
COLOURS: Final = 64
PICTURES: Final = {
    "overview": "overview",
    "topic": "topic?name=orders",
    "messages": "messages?topic=orders&partition=0&isolation=all",
    "group": "group?name=billing",
    "transaction": "transaction?id=checkout-1",
    "subject": "subject?name=orders-value",
    "steering": "steering",
}
"""The page for each picture of docs/console.md."""
OTHERS: Final = {
    "topics": "topics",
    "record": "record?topic=orders&partition=0&offset=0",
    "groups": "groups",
    "transactions": "transactions",
    "configs": "configs?kind=topic&name=orders",
    "schemas": "schemas",
}
"""The pages without a picture in docs/console.md."""
DIALOGS: Final = {"action": ("topic?name=orders", "delete-records", ".preview tbody tr")}
"""The page of a dialog, its action, and an element that it has once it shows the preview."""
OTHER_DIALOGS: Final = {
    "refused": ("subject?name=address", "delete-subject", ".wrong:not(:empty)"),
    "registration": ("subject?name=orders-value", "register-schema", ".wrong:not(:empty)"),
}
"""The dialogs without a picture in docs/console.md."""
THEMES: Final = ("light", "dark")
NARROW: Final = 390
NARROW_HEIGHT: Final = 844


def producer(broker: Broker, transactional_id: str, client_id: str) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "client.id": client_id,
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    made.init_transactions(TIMEOUT_S)
    return made


def write(to: Producer, order: int) -> None:
    to.begin_transaction()
    for item in range(3):
        value = f'{{"order": {order}, "item": {item}, "cents": {order * 125 + item}}}'
        to.produce("orders", value, key=f"customer-{(order + item) % 5}", partition=item % 2, headers={"source": "web"})
    to.produce("payments", f'{{"order": {order}}}', partition=0)
    to.flush(TIMEOUT_S)


def play(broker: Broker) -> list[object]:
    """Create committed and aborted orders, a zombie, and a group that waits for an open transaction. The caller must keep the
    returned clients open."""
    for topic, partitions in (("orders", 3), ("payments", 1)):
        broker.create_topic(topic, partitions)
    worker = producer(broker, "checkout-2", "shop-c")
    for order in range(24):
        write(worker, order)
        if order % 5 == 3:
            worker.abort_transaction(TIMEOUT_S)
        else:
            worker.commit_transaction(TIMEOUT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "billing",
            "client.id": "billing-1",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    first = producer(broker, "checkout-1", "shop-a")
    write(first, 100)
    second = producer(broker, "checkout-1", "shop-b")
    with suppress(KafkaException):
        first.commit_transaction(TIMEOUT_S)
    write(second, 101)
    while any(consumer.consume(500, 2.0)):
        consumer.commit(asynchronous=False)
    broker.faults.add(api="EndTxn", transactional_id="checkout-2", drop_answer=True, times=3)
    with suppress(KafkaException):
        write(worker, 102)
        worker.commit_transaction(2.0)
    return [worker, consumer, first, second]


def register(broker: Broker) -> None:
    """Register schemas of the three types, of which one refers to another, and delete a subject softly."""
    address = {"type": "record", "name": "Address", "namespace": "shop", "fields": [_field("street"), _field("city")]}
    order = {"type": "record", "name": "Order", "namespace": "shop", "doc": "An order of the shop."}
    fields = [_field("id", "long"), _field("customer"), _field("cents", "long"), _field("address", "shop.Address")]
    client = RegistryClient(Registry(broker.schema_registry_url))
    client.register("address", json.dumps(address))
    refers = [SchemaReference(name="shop.Address", subject="address", version=1)]
    for later in ([], [{**_field("coupon", ["null", "string"]), "default": None}]):
        client.register("orders-value", json.dumps({**order, "fields": [*fields, *later]}), AVRO, refers)
    client.register("payments-value", 'syntax = "proto3";\nmessage Payment { int64 order = 1; int64 cents = 2; }\n', PROTOBUF)
    client.register("customers-value", json.dumps({"type": "object", "properties": {"name": {"type": "string"}}}), JSON)
    client.register("carts-value", json.dumps("string"))
    admin = RegistryAdmin(client)
    admin.change(level_change("orders-value", "FULL"))
    admin.change(subject_deletion("carts-value", is_permanent=False))


def _field(name: str, kind: object = "string") -> dict[str, object]:
    return {"name": name, "type": kind}


def smaller(file: Path) -> None:
    """Convert a picture to a palette, which reduces the file to a third."""
    with Image.open(file) as picture:
        reduced = picture.convert("RGB").quantize(COLOURS)
    reduced.save(file, optimize=True)


def take(browser: Browser, file: Path) -> None:
    """Take a picture of what the browser shows."""
    browser.picture(file)
    smaller(file)
    print(f"{file}: {file.stat().st_size:,} bytes")


def take_all(browser: Browser, pages: dict[str, str], dialogs: dict[str, tuple[str, str, str]], begin: str) -> None:
    """Take the pictures of ``pages`` and ``dialogs``. ``begin`` is the beginning of the files' paths."""
    for name, page in pages.items():
        browser.show(page)
        take(browser, Path(f"{begin}{name}.png"))
    for name, (page, action, shown) in dialogs.items():
        browser.show(page)
        browser.click(f"[data-act={action}]")
        browser.wait(f"document.querySelector('#act {shown}')")
        take(browser, Path(f"{begin}{name}.png"))
        browser.press("ESCAPE")
        browser.wait("!document.querySelector('dialog')")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="console_pictures", description="Take the pictures of docs/console.md.")
    parser.add_argument("--to", metavar="DIR", type=Path, help="take pictures of all pages, in DIR")
    parser.add_argument("--theme", choices=THEMES, help="with --to: only this theme")
    parser.add_argument("--width", metavar="PIXELS", type=int, help=f"with --to: only this width (default: {WIDTH} and {NARROW})")
    given = parser.parse_args()
    if given.to is None and (given.theme or given.width):
        parser.error("--theme and --width need --to, because the pictures of docs/console.md have one look")
    return given


def main() -> int:
    given = arguments()
    try:
        browser = Browser()
    except Unavailable as missing:
        print(f"console_pictures: {missing}", file=sys.stderr)
        return 1
    with browser, Broker(schema_registry=True, settings={"ottla.console": True}) as broker:
        actors = play(broker)
        register(broker)
        browser.enter(broker.ready["console"])
        if given.to is None:
            take_all(browser, PICTURES, DIALOGS, f"{ROOT}/docs/console-")
        else:
            given.to.mkdir(parents=True, exist_ok=True)
            for theme in [given.theme] if given.theme else THEMES:
                for width in [given.width] if given.width else (WIDTH, NARROW):
                    browser.look(width=width, height=HEIGHT if width > NARROW else NARROW_HEIGHT, is_dark=theme == "dark")
                    take_all(browser, PICTURES | OTHERS, DIALOGS | OTHER_DIALOGS, f"{given.to}/{theme}-{width}-")
        del actors
    return 0


if __name__ == "__main__":
    sys.exit(main())
