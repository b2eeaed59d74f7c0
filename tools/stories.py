"""Runs the examples of docs/exactly-once.md, and draws the output of ``ottla txn timeline``: ``python -m tools.stories``."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from rich.console import Console
from rich.text import Text

from ottla import Broker

ROOT: Final = Path(__file__).parent.parent
WIDTH: Final = 172
TIMEOUT_S: Final = 30.0
TRANSACTIONAL_ID: Final = "checkout-1"


def producer(broker: Broker, client_id: str, **settings: Any) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": TRANSACTIONAL_ID,
            "client.id": client_id,
            "log_level": 0,
            **settings,
        }
    )
    made.init_transactions(TIMEOUT_S)
    return made


def write(to: Producer) -> None:
    to.begin_transaction()
    to.produce("invoices", value="invoice 1", partition=0)
    to.produce("shipments", value="shipment 1", partition=0)
    to.flush(TIMEOUT_S)


def commit(broker: Broker) -> None:
    """Commit an invoice and a shipment in one transaction."""
    shop = producer(broker, "shop-a")
    write(shop)
    shop.commit_transaction(TIMEOUT_S)


def zombie(broker: Broker) -> None:
    """Fence a worker in the middle of a transaction by a second worker; then the first tries to commit."""
    first = producer(broker, "shop-a")
    write(first)
    second = producer(broker, "shop-b")
    write(second)
    second.commit_transaction(TIMEOUT_S)
    with suppress(KafkaException):
        first.commit_transaction(TIMEOUT_S)


def crash(broker: Broker) -> None:
    """Crash the broker after the decision, before any marker is written. The restarted broker writes the markers."""
    shop = producer(broker, "shop-a")
    write(shop)
    broker.faults.add(kill="after-prepare", transactional_id=TRANSACTIONAL_ID)
    with suppress(KafkaException):
        shop.commit_transaction(3.0)
    broker.restart(kill=True)
    broker.wait_for(lambda: broker.describe_transaction(TRANSACTIONAL_ID).state == "CompleteCommit")


STORIES: Final[dict[str, Callable[[Broker], None]]] = {"commit": commit, "zombie": zombie, "crash": crash}


def timeline(broker: Broker) -> str:
    """Return the output of ``ottla txn timeline``."""
    control_api = broker.ready["control"]
    command = [sys.executable, "-m", "ottla", "txn", "timeline", TRANSACTIONAL_ID, "--bootstrap", broker.bootstrap]
    command += ["--url", control_api["url"], "--token", control_api["token"]]
    environment = {**os.environ, "COLUMNS": str(WIDTH)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=TIMEOUT_S).stdout


def main() -> int:
    for name, play in STORIES.items():
        with Broker() as broker:
            for topic in ("invoices", "shipments"):
                broker.create_topic(topic, 1)
            play(broker)
            console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=False)
            console.print(Text(timeline(broker).rstrip()))
        # Remove the fonts, which a browser would download.
        drawn = console.export_svg(title=f"ottla txn timeline {TRANSACTIONAL_ID}")
        (ROOT / "docs" / f"story-{name}.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))
        print(f"docs/story-{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
