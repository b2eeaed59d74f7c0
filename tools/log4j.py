"""The logging config of Apache Kafka's processes: warnings and errors are written to stderr."""

from __future__ import annotations

from pathlib import Path

CONFIG = """Configuration:
  status: warn
  Appenders:
    Console: {name: STDERR, target: SYSTEM_ERR, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}
  Loggers:
    Root: {level: warn, AppenderRef: {ref: STDERR}}
"""


def option(directory: Path) -> str:
    """Write the configuration to a directory, and return the JVM option that selects it."""
    path = directory / "log4j2.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CONFIG)
    return f"-Dlog4j2.configurationFile={path}"
