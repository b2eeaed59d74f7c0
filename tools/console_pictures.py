"""Takes the screenshots for docs/console.md while a small shop runs: ``python -m tools.console_pictures``.

``--to DIR`` takes pictures of all pages and of a dialog, to look at before a change of the pages is published: in both themes, on a
wide and on a narrow screen, unless ``--theme`` or ``--width`` names one.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer
from PIL import Image

from ottla import Broker
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
    "steering": "steering",
}
"""The page for each picture of docs/console.md."""
OTHERS: Final = {
    "topics": "topics",
    "record": "record?topic=orders&partition=0&offset=0",
    "groups": "groups",
    "transactions": "transactions",
    "configs": "configs?kind=topic&name=orders",
}
"""The pages without a picture in docs/console.md."""
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


def take_all(browser: Browser, pages: dict[str, str], begin: str) -> None:
    """Take the pictures of ``pages``, and of the dialog that deletes records. ``begin`` is the beginning of the files' paths."""
    for name, page in pages.items():
        browser.show(page)
        take(browser, Path(f"{begin}{name}.png"))
    browser.show("topic?name=orders")
    browser.click("[data-act=delete-records]")
    browser.wait("document.querySelector('#act .preview tbody tr')")
    take(browser, Path(f"{begin}action.png"))
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
    with browser, Broker(settings={"ottla.console": True}) as broker:
        actors = play(broker)
        browser.enter(broker.ready["console"])
        if given.to is None:
            take_all(browser, PICTURES, f"{ROOT}/docs/console-")
        else:
            given.to.mkdir(parents=True, exist_ok=True)
            for theme in [given.theme] if given.theme else THEMES:
                for width in [given.width] if given.width else (WIDTH, NARROW):
                    browser.look(width=width, height=HEIGHT if width > NARROW else NARROW_HEIGHT, is_dark=theme == "dark")
                    take_all(browser, PICTURES | OTHERS, f"{given.to}/{theme}-{width}-")
        del actors
    return 0


if __name__ == "__main__":
    sys.exit(main())
