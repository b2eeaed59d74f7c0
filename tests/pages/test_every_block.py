"""A test runs each block of the documentation, or the catalogue has the reason why not. Commands, options and files in a block
exist."""

from __future__ import annotations

import configparser
import importlib.util
import re
import shlex
from collections import Counter

import click
import pytest
import yaml

from ottla.broker.config.sources import from_environment, load
from ottla.cli.root import root
from ottla.container.image import prepared
from tests.pages import catalogue
from tests.pages.blocks import PAGES, ROOT, Block, block, blocks

BLOCKS = [block for page in PAGES if page not in catalogue.GENERATED for block in blocks(page)]
MAKEFILE = (ROOT / "Makefile").read_text()
WAYS = ("SESSIONS", "PROGRAMS", "PRINTED", "TESTS", "SPARK_PROGRAMS", "ELSEWHERE", "EXCERPTS", "NOT_RUN")
OTHERS_COMMANDS = {"connect-mirror-maker.sh", "./gradlew", "cat", "docker", "pip", "pytest"}


def ways_of(block: Block) -> list[str]:
    """Return the lists of the catalogue that contain the block."""
    ways = [way for way in WAYS if block.name in getattr(catalogue, way)]
    is_typed = block.language == "sh" or (block.language == "python" and block.title is not None)
    return ways + ["PAGES_TYPED"] * (block.page in catalogue.PAGES_TYPED and is_typed)


def test_every_code_block_of_the_docs_is_tested_in_exactly_one_way() -> None:
    assert {block.name: ways for block in BLOCKS if len(ways := ways_of(block)) != 1} == {}
    assert {name for name, count in Counter(block.name for block in BLOCKS if not block.title).items() if count > 1} == set()


def test_catalogue_of_documentation_tests_names_existing_blocks_and_tests() -> None:
    there = {block.name for block in BLOCKS}
    assert {name for way in WAYS for name in getattr(catalogue, way)} <= there
    assert set(catalogue.PAGES_TYPED) <= {block.page for block in BLOCKS}
    for test in catalogue.ELSEWHERE.values():
        path, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text(), test


def test_every_code_block_of_the_docs_names_its_language() -> None:
    assert [block.name for block in BLOCKS if not block.language] == []


@pytest.mark.parametrize("settings", [one for one in BLOCKS if one.language in ("yaml", "ini")], ids=lambda one: one.name)
def test_documented_settings_are_valid(settings: Block) -> None:
    if settings.language == "yaml":
        assert yaml.safe_load(settings.text)
    else:
        configparser.ConfigParser().read_string(settings.text)


@pytest.mark.parametrize("name", catalogue.EXCERPTS, ids=str)
def test_excerpts_in_the_docs_equal_their_files(name: tuple[str, str]) -> None:
    lines = iter((ROOT / catalogue.EXCERPTS[name]).read_text().splitlines())
    for wanted in filter(None, map(str.strip, block(name).text.splitlines())):
        assert any(re.fullmatch(re.sub(r"\\{\w+\\}", ".+", re.escape(line.strip())), wanted) for line in lines), (
            f"line {wanted!r} does not follow in the file"
        )


@pytest.mark.parametrize(
    "text", [(ROOT / "docker-compose.yml").read_text(), block(("docs/compose.md", "services:")).text], ids=["checkout", "page"]
)
def test_compose_files_in_the_docs_use_existing_settings(text: str) -> None:
    for service in yaml.safe_load(text)["services"].values():
        variables = {name: value for name, value in service.get("environment", {}).items() if name != "KAFKA_BOOTSTRAP"}
        _, ignored = from_environment(variables)
        assert ignored == []
        load(None, prepared(variables, {}), [], {})
        if "command" in service:
            command, *arguments = shlex.split(service["command"])
            assert command == "ottla"
            exists(arguments)


def commands_of(typed: Block) -> list[list[str]]:
    """Return the commands of a shell block, or of the steps in a YAML job, as lists of words."""
    text = typed.text
    if typed.language == "yaml":
        read = yaml.safe_load(text)
        steps = read if isinstance(read, list) else [step for job in read.get("jobs", {}).values() for step in job["steps"]]
        text = "\n".join(step["run"] for step in steps if "run" in step)
    lines = (re.sub(r">\S* 2>&1 &$|&$", "", line) for line in text.splitlines())
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize(
    "block",
    [block for block in BLOCKS if block.name in catalogue.NOT_RUN and block.language in ("sh", "yaml")],
    ids=lambda b: b.name,
)
def test_documented_commands_exist_even_if_no_test_runs_them(block: Block) -> None:
    for words in commands_of(block):
        match words:
            case ["ottla", *arguments]:
                exists(arguments)
            case ["docker", "run", _, "ottla", *arguments]:
                exists(arguments)
            case ["make", target, *variables]:
                assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target
                for variable in variables:
                    assert f"$({variable.partition('=')[0]})" in MAKEFILE
            case ["python", "-m", module, *_]:
                assert importlib.util.find_spec(module) is not None, module
            case [command, *_]:
                assert command in OTHERS_COMMANDS, command


def exists(arguments: list[str]) -> None:
    """Fail unless the ottla command and its options exist. The command is run with `--help`, which only parses it."""
    try:
        root.main([*arguments, "--help"], prog_name="ottla", standalone_mode=False)
    except click.exceptions.Exit as ended:
        assert ended.exit_code == 0
