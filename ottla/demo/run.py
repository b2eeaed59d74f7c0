"""Runs ``ottla demo``: starts a broker and the shop, causes failures, and shows the result in a table."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from ottla.demo.audit import Findings, audit
from ottla.demo.shop import FENCED_EXIT, INVOICES, PARTITIONS, PURCHASES, SHIPMENTS, ShopPlan
from ottla.testing.broker_process import SAFE_PATH
from ottla.testing.handle import Broker, BrokerFailed

TRANSACTIONAL_ID = "shop-worker"
WORKER_TIMEOUT_S = 120
DEMO_TIMEOUT_S = 300


class DemoFailed(Exception):
    """The demo could not be finished."""


class Shop:
    """Runs the shop's workers, causes failures, and counts the events that workers print."""

    def __init__(self, broker: Broker, purchases: int, progress: Progress, task: TaskID) -> None:
        self._broker = broker
        self._purchases = purchases
        self._progress = progress
        self._task = task
        self.done = 0
        self.killed = self.fenced = self.aborted = self.restarts = 0

    @property
    def is_done(self) -> bool:
        return self.done >= self._purchases

    def _show_progress(self, text: str) -> None:
        self._progress.update(self._task, completed=min(self.done, self._purchases), description=text)

    def worker(self, plan: ShopPlan) -> subprocess.Popen[str]:
        command = [sys.executable, *SAFE_PATH, "-m", "ottla.demo.shop", self._broker.bootstrap, TRANSACTIONAL_ID, plan.text()]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def follow(self, worker: subprocess.Popen[str], until: Callable[[str], bool]) -> bool:
        """Read a worker's events until ``until`` accepts an event. Returns False if the worker ended first."""
        assert worker.stdout is not None
        for line in worker.stdout:
            message = json.loads(line)
            event, count = message["event"], message["count"]
            if event == "committed":
                self.done += count
            elif event == "aborted":
                self.aborted += 1
            self._show_progress("shop at work")
            if until(event):
                return True
        return False

    def run_and_kill(self) -> None:
        """Run a worker, and kill it in the middle of a transaction."""
        worker = self.worker(ShopPlan(abort_every=7, die_at=4))
        if self.follow(worker, lambda event: event == "in_the_middle"):
            worker.send_signal(signal.SIGKILL)
            self.killed += 1
            self._show_progress("worker killed in mid-transaction")
        _end(worker)

    def run_zombie(self) -> None:
        """Pause a worker until another worker owns its transactional id, so that the paused worker is fenced when it continues."""
        zombie = self.worker(ShopPlan(sleep_at=3))
        if not self.follow(zombie, lambda event: event == "in_the_middle"):
            _end(zombie)
            return
        # SIGSTOP also stops heartbeats, so the group assigns the partitions to the new worker.
        zombie.send_signal(signal.SIGSTOP)
        self._show_progress("worker paused, another one continues")
        heir = self.worker(ShopPlan(abort_every=5, die_at=6))
        self.follow(heir, lambda event: event in ("committed", "done"))
        zombie.send_signal(signal.SIGCONT)
        assert zombie.stdin is not None
        zombie.stdin.write("\n")
        zombie.stdin.flush()
        self.follow(zombie, lambda event: event == "fenced")
        if zombie.wait(WORKER_TIMEOUT_S) == FENCED_EXIT:
            self.fenced += 1
            self._show_progress("zombie fenced")
        _end(zombie)
        if self.follow(heir, lambda event: event == "in_the_middle"):
            heir.send_signal(signal.SIGKILL)
            self.killed += 1
        _end(heir)

    def run_through_restart(self) -> None:
        """Kill the broker while a worker has an open transaction, and start the broker again."""
        worker = self.worker(ShopPlan(sleep_at=2))
        if self.follow(worker, lambda event: event == "in_the_middle"):
            self._show_progress("broker killed and started again")
            self._broker.restart(kill=True)
            self.restarts += 1
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
            self.follow(worker, lambda _: self.is_done)
        worker.kill()
        _end(worker)

    def run_to_the_end(self) -> None:
        deadline = time.monotonic() + DEMO_TIMEOUT_S
        while not self.is_done:
            if time.monotonic() > deadline:
                raise DemoFailed(f"the shop did not finish: {self.done} of {self._purchases} purchases")
            worker = self.worker(ShopPlan(abort_every=9))
            self.follow(worker, lambda event: event == "done")
            _end(worker)
        self._show_progress("all purchases processed")


def _end(worker: subprocess.Popen[str]) -> None:
    if worker.poll() is None:
        try:
            worker.wait(5)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()


def _buy(bootstrap: str, count: int, progress: Progress, task: TaskID) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, PARTITIONS, 1) for name in (PURCHASES, INVOICES, SHIPMENTS)]
    for future in admin.create_topics(topics).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(count):
        purchase = {"id": number, "user": f"user-{number % 97}", "product": f"product-{number % 13}", "cents": 199 + number % 5000}
        producer.produce(PURCHASES, json.dumps(purchase).encode(), str(number).encode())
        if number % 500 == 0:
            producer.poll(0)
            progress.update(task, completed=number)
    if producer.flush(60):
        raise DemoFailed("the purchases could not be written")
    progress.update(task, completed=count)


def _table(findings: Findings, shop: Shop, seconds: float) -> Table:
    table = Table(title="The shop, as a read_committed consumer sees it", title_justify="left", min_width=56)
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("must be", justify="right")
    expected = str(findings.purchases)
    rows = [
        ("purchases", findings.purchases, ""),
        ("invoices", findings.invoices, expected),
        ("shipments", findings.shipments, expected),
        ("duplicates", findings.duplicates, "0"),
        ("missing", findings.missing, "0"),
        ("torn", findings.torn, "0"),
        ("aborted hidden", findings.aborted_hidden, "> 0"),
    ]
    for name, count, wanted in rows:
        wrong = wanted not in ("", "> 0") and str(count) != wanted
        table.add_row(name, f"[red]{count}[/red]" if wrong else f"{count}", wanted)
    table.add_section()
    table.add_row("workers killed in mid-transaction", str(shop.killed), "")
    table.add_row("zombies fenced", str(shop.fenced), "")
    table.add_row("transactions aborted", str(shop.aborted), "")
    table.add_row("broker killed and started again", str(shop.restarts), "")
    table.caption = f"{seconds:.1f} s"
    return table


def _document(findings: Findings, shop: Shop, *, proven: bool) -> dict[str, Any]:
    happened = {"workers_killed": shop.killed, "zombies_fenced": shop.fenced, "aborted": shop.aborted, "restarts": shop.restarts}
    return dataclasses.asdict(findings) | happened | {"proven": proven}


def _play(console: Console, broker: Broker, purchases: int, *, as_json: bool) -> bool:
    started = time.monotonic()
    columns = (SpinnerColumn(), TextColumn("{task.description:<36}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        _buy(broker.bootstrap, purchases, progress, progress.add_task("purchases made", total=purchases))
        shop = Shop(broker, purchases, progress, progress.add_task("shop at work", total=purchases))
        for part in (shop.run_and_kill, shop.run_zombie, shop.run_through_restart, shop.run_to_the_end):
            if not shop.is_done:
                part()
        findings = audit(broker.bootstrap)
    console.print(_table(findings, shop, time.monotonic() - started))
    hurt = shop.killed and shop.fenced and shop.aborted and shop.restarts and findings.aborted_hidden
    if not hurt:
        console.print("Not every planned failure happened; give more purchases.")
    verdict = findings.proven and bool(hurt)
    console.print("Exactly once: [green]proven[/green]" if verdict else "Exactly once: [red]NOT proven[/red]")
    if as_json:
        print(json.dumps(_document(findings, shop, proven=verdict)), flush=True)
    return verdict


def run(*, port: int, purchases: int, data_dir: str | None, as_json: bool = False, console: Console | None = None) -> int:
    """Run the demo. Returns exit code 0 if all counts are right. On a terminal the broker then runs until Ctrl-C."""
    console = console or Console(stderr=as_json)
    broker = Broker(data_dir=data_dir, port=port)
    try:
        broker.start()
        console.print(f"ottla listens at [bold]{broker.bootstrap}[/bold], data in {broker.data_dir}")
        right = _play(console, broker, purchases, as_json=as_json)
        if sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI"):
            console.print(f"Still serving at [bold]{broker.bootstrap}[/bold]; Ctrl-C ends it.")
            try:
                signal.pause()
            except KeyboardInterrupt:
                console.print("")
        return 0 if right else 1
    except (BrokerFailed, DemoFailed) as error:
        console.print(f"[red]{error}[/red]")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        broker.close()
