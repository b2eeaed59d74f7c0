"""``python -m ottla.container launch``, ``link-tools``, or the name of a tool: the entry point of the scripts in container/."""

import sys


def main(arguments: list[str]) -> int:
    name, *rest = arguments or [""]
    name = name.removesuffix(".sh")
    # Imports take longer than most tools run, so only the module of the called tool is imported.
    if name in ("", "launch", "kafka-storage", "zookeeper-server-start"):
        from ottla.container.image import main as run

        return run([name, *rest] if name else [])
    if name == "link-tools":
        from ottla.container.links import create_links

        create_links()
        return 0
    from ottla.container.kafka_tools import main as run_tool

    return run_tool(name, rest)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
