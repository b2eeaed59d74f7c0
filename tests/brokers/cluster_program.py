"""A program for tests: the parent process of a cluster whose node processes serve no requests.

Arguments: the behaviour of broker 2 ("", "refuse" or "fail-later", which starts only once), a data directory, and the flags "alone"
and "restart" of the parent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from ottla.broker.config.settings import BrokerConfig
from ottla.broker.process.ready_file import ReadyFile
from ottla.brokers.parent import ClusterProcesses, Parent
from ottla.brokers.plan import CONTROLLER_ID, PlannedNode
from ottla.process import OwnerProcess, print_error


def run_node(node: PlannedNode, parent: OwnerProcess) -> int:
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    parent.watch(stopped.set)
    if sys.argv[1] == "refuse" and node.node_id == 2:
        print_error("ottla: broker 2 does not like it")
        return 1
    if sys.argv[1] == "fail-later" and node.node_id == 2:
        first_run = Path(f"{sys.argv[2]}/has-run")
        if first_run.exists():
            print(json.dumps({"event": "failed", "reason": "broker 2 does not like it"}), flush=True)
            return 1
        first_run.touch()
    where = {"controller": "c:1"} if node.is_controller else {"bootstrap": f"b:{node.node_id}", "data_dir": node.directory}
    print(json.dumps({"event": "ready", "listening": {"PLAINTEXT": f"l:{node.node_id}"}, **where}), flush=True)
    while not stopped.wait(0.05):
        pass
    print_error(f"stopped {node.name}")
    parent.ended()
    return 0


def main() -> int:
    names = {CONTROLLER_ID: "controller", 1: "broker-1", 2: "broker-2"}
    nodes = {number: PlannedNode(name, number, f"{sys.argv[2]}/{name}", BrokerConfig({})) for number, name in names.items()}
    cluster = ClusterProcesses(nodes=nodes, cluster_id="c", data_dir=sys.argv[2], is_terminal=False)
    cluster.restarts_nodes = "restart" in sys.argv
    takes_commands = "alone" not in sys.argv
    return Parent(cluster, run_node, ready_file=ReadyFile(None), takes_commands=takes_commands).run(OwnerProcess(pid=os.getppid()))


if __name__ == "__main__":
    sys.exit(main())
