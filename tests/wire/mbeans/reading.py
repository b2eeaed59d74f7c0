"""Apache Kafka with a JMX agent, and a program that reads its MBeans."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import NamedTuple, Self

from tools import java_programs, kafka
from tools.kafka import QUICK_JVM, Jvm

PROGRAM = Path(__file__).parent / "MBeans.java"
TIMEOUT_S = 60


class MBean(NamedTuple):
    tags: dict[str, str]
    values: dict[str, float]


def with_agent(port: int) -> Jvm:
    """The options of a Kafka process whose MBeans can be read on the port."""
    agent = {"port": port, "rmi.port": port, "host": "127.0.0.1", "authenticate": "false", "ssl": "false"}
    options = (f"-Dcom.sun.management.jmxremote.{name}={value}" for name, value in agent.items())
    return Jvm((*QUICK_JVM.options, "-Djava.rmi.server.hostname=127.0.0.1", *options), from_archive=True)


class MBeanReader:
    """A Java process that reads the MBeans of the agent on a port."""

    def __init__(self, port: int) -> None:
        command = [*java_programs.command(PROGRAM, kafka.jars("all"), *QUICK_JVM.options), str(port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self, name: str) -> list[MBean]:
        """Read the MBeans whose object name is ``name``, which may be a pattern."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        # Jackson writes NaN as a text.
        beans = json.loads(self._process.stdout.readline())
        return [MBean(bean["tags"], {key: float(value) for key, value in bean["values"].items()}) for bean in beans]

    def close(self) -> None:
        self._process.communicate(timeout=TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
