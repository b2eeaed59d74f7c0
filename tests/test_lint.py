"""The source code follows the repository's own rules: imports, file lengths, asserts, generated structs."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("lint")
"""Runs all of these tests in one process, which parses the sources only once."""

ROOT = Path(__file__).parent.parent
OUTSIDE = {"time", "os", "socket", "random", "uuid", "secrets", "subprocess", "threading"}
OUTSIDE_OF = {
    "ottla/broker/loop/env.py": {"time", "os", "socket", "uuid"},
    "ottla/broker/loop/local_sockets.py": {"socket"},
    "ottla/broker/network/tls_alerts.py": {"os"},
    "ottla/http/http_requests.py": {"socket", "time"},
    "ottla/http/http_server.py": {"socket", "threading"},
    "ottla/storage/real_filesystem.py": {"os"},
    # Code that injects faults may end the process and draw random numbers with its own seed.
    "ottla/control/faults/added_fault.py": {"random"},
    "ottla/control/faults/registry.py": {"os"},
    "ottla/control/clock.py": {"time"},
    "ottla/control/http_api.py": {"threading"},
    "ottla/control/page_server.py": {"threading"},
    "ottla/control/pages.py": {"threading"},
    "ottla/control/faults/remote_faults.py": {"time"},
}
"""Modules of `OUTSIDE` (I/O, time, threads, randomness) that a file may import. Other files of `ROOMS` may import none of them."""
MAX_LINES = 420
ROOMS = tuple(f"ottla/{name}" for name in ("protocol", "storage", "coordinator", "operations", "broker", "control"))
LINKS = ("broker", "coordinator", "protocol", "storage")
"""Packages of ottla that have a symbolic link in the top-level directory."""


def sources(*rooms: str) -> list[Path]:
    return [p for room in rooms for p in sorted((ROOT / room).rglob("*.py")) if "messages" not in p.parts]


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return the nodes of a module's syntax tree in the order of ast.walk."""
    return list(ast.walk(ast.parse(path.read_text())))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names


def test_pure_packages_import_no_io_modules() -> None:
    reached = {path: imported(path) & OUTSIDE - OUTSIDE_OF.get(str(path.relative_to(ROOT)), set()) for path in sources(*ROOMS)}
    assert not {path: names for path, names in reached.items() if names}


def test_no_module_imports_secrets_which_test_projects_replace() -> None:
    """`ottla.random_tokens` says why."""
    assert not [path for path in sources("ottla") if "secrets" in imported(path)]


def test_source_files_stay_below_the_line_limit() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in sources("ottla", "tools", "benchmarks")}
    assert not {path: count for path, count in lines.items() if count > MAX_LINES}


MAX_CONSTRUCTOR_ARGUMENTS = 7
"""A class that needs more arguments gets the kernel (`ottla.broker.partitions.kernel`) or another value that groups them."""


def test_constructors_of_the_broker_take_few_arguments() -> None:
    counts = {
        f"{path.relative_to(ROOT)}:{node.lineno}": len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]) - 1
        for path in sources("ottla/broker")
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    }
    assert not {where: count for where, count in counts.items() if count > MAX_CONSTRUCTOR_ARGUMENTS}


STRUCTS_ONLY = tuple(f"ottla/{name}" for name in ("storage", "coordinator", "broker", "control", "spark", "pipeline"))
"""Packages with values created for each request, batch or record, or sent to another process (docs/internals/recipes.md)."""


def test_packages_that_create_values_for_each_request_use_msgspec_structs() -> None:
    assert not [
        path for path in (*sources(*STRUCTS_ONLY), *(ROOT / "ottla/protocol").glob("*.py")) if "dataclasses" in imported(path)
    ]


def modules_imported(path: Path, modules: set[str]) -> set[str]:
    """Return the ottla modules that the module imports, including type-only and function-level imports."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in modules else node.module for name in within}
    return names & modules


def test_imports_between_modules_have_no_cycles() -> None:
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in sources("ottla")}
    graph = {name: modules_imported(path, set(paths)) - {name} for name, path in paths.items()}
    TopologicalSorter(graph).prepare()


AWAITING = {
    "ottla/coordinator/group/consumer/groups.py": {"expansions"},
    "ottla/coordinator/group/subscriptions.py": {"expanded", "_in_stretches"},
}
"""Coroutines of coordinators: they resolve regular expressions before a heartbeat, which decides in a synchronous function."""


def test_decisions_of_coordinators_are_synchronous() -> None:
    """No other work can run between a coordinator's last check and the change of its state."""
    awaiting: dict[str, set[str]] = {}
    for path in sources("ottla/coordinator"):
        if names := {node.name for node in nodes(path) if isinstance(node, ast.AsyncFunctionDef)}:
            awaiting[str(path.relative_to(ROOT))] = names
    assert awaiting == AWAITING


LOOKS = {"all", "any", "isinstance", "len", "list", "set", "sorted", "is_waiting_for_markers", "keys", "values"}
"""Functions without side effects, which an assert may call. With ``python -O`` asserts do not run."""


def acts(module: Sequence[ast.AST]) -> list[str]:
    """Return the calls, assignments and awaits with side effects inside asserts."""
    acting: list[str] = []
    for statement in module:
        if not isinstance(statement, ast.Assert):
            continue
        for node in ast.walk(statement.test):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
                acting += [name] if name not in LOOKS else []
            elif isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
                acting.append(ast.unparse(node))
    return acting


def test_asserts_have_no_side_effects() -> None:
    acting = {path: acts(nodes(path)) for path in sources("ottla")}
    assert not {path: names for path, names in acting.items() if names}


def test_lint_detects_an_assert_with_a_side_effect() -> None:
    text = "assert waiters.pop(1), 'gone'\nassert (n := 1)\nassert isinstance(n, int)"
    assert acts(list(ast.walk(ast.parse(text)))) == ["pop", "(n := 1)"]


MESSAGES = "ottla.protocol.messages"


def generated_structs() -> dict[str, set[str]]:
    """Return the names of the structs in each module of ottla/protocol/messages."""
    modules = (path for path in (ROOT / MESSAGES.replace(".", "/")).glob("*.py") if path.stem != "__init__")
    return {path.stem: set(re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)) for path in modules}


GENERATED = generated_structs()


def built_by_position(tree: Sequence[ast.AST]) -> list[str]:
    """Return the calls of generated structs that have an unpacked argument or more than one positional argument.

    A struct is recognised by its import: either the struct itself is imported, or its module is and the struct is an attribute of
    the module.
    """
    structs: set[str] = set()
    modules: dict[str, str] = {}
    for node in tree:
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        for alias in node.names:
            if node.module == MESSAGES:
                modules[alias.asname or alias.name] = alias.name
            elif alias.name in GENERATED.get(node.module.removeprefix(f"{MESSAGES}."), ()):
                structs.add(alias.asname or alias.name)
    calls = []
    for node in tree:
        if not isinstance(node, ast.Call) or (len(node.args) < 2 and not any(isinstance(a, ast.Starred) for a in node.args)):
            continue
        match node.func:
            case ast.Name(name) if name in structs:
                calls.append(ast.unparse(node))
            case ast.Attribute(ast.Name(module), name) if name in GENERATED.get(modules.get(module, ""), ()):
                calls.append(ast.unparse(node))
    return calls


@pytest.mark.heavy
def test_generated_message_structs_are_built_with_keyword_arguments() -> None:
    """A generated struct has its fields in the order of Kafka's schema, and Kafka inserts new fields in the middle."""
    who_imports = [path for path in sources("ottla", "tests", "tools", "benchmarks") if MESSAGES in path.read_text()]
    assert len(who_imports) > 100
    built = {path: built_by_position(nodes(path)) for path in who_imports}
    assert not {path: calls for path, calls in built.items() if calls}


@pytest.mark.parametrize(
    "text",
    [
        "from ottla.protocol.messages.produce import TopicProduceData\nTopicProduceData('t', b'', [])",
        "from ottla.protocol.messages.produce import TopicProduceData as Data\nData('t', b'', partition_data=[])",
        "from ottla.protocol.messages.produce import TopicProduceData\nTopicProduceData(*topic)",
        "from ottla.protocol.messages import produce as messages\nmessages.TopicProduceData('t', b'')",
    ],
)
def test_lint_detects_a_msgspec_struct_built_with_positional_arguments(text: str) -> None:
    assert len(built_by_position(list(ast.walk(ast.parse(text))))) == 1


@pytest.mark.parametrize("name", LINKS)
def test_symbolic_links_of_the_checkout_point_to_the_packages(name: str) -> None:
    assert (ROOT / name).readlink() == Path("ottla") / name


@pytest.mark.heavy
def test_packages_are_not_imported_through_the_symbolic_links_of_the_checkout() -> None:
    """A module that is imported by two names exists twice, with two copies of each class."""
    # Only files with a line that looks like an import through a link are parsed, because parsing takes long.
    links = "|".join(LINKS)
    looks = re.compile(rf"^\s*(?:from\s+(?:{links})\b|import\s.*\b(?:{links})\b)", re.MULTILINE)
    who_may = [path for path in sources("ottla", "tests", "tools", "benchmarks") if looks.search(path.read_text())]
    through = {path: imported(path) & set(LINKS) for path in who_may}
    assert not {path: names for path, names in through.items() if names}


def test_every_kafka_setting_that_ottla_implements_is_known_to_kafka() -> None:
    from ottla.broker.config.definitions import broker_definitions
    from ottla.broker.config.settings import HONOURED, OWN_DEFAULTS

    assert set(broker_definitions()) >= HONOURED | set(OWN_DEFAULTS)


def test_makefile_selects_tests_by_declared_markers_only() -> None:
    declared = set(re.findall(r'^    "(\w+)[(:]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    expressions = re.findall(r'-m (?:"([^"]+)"|(\w+))', (ROOT / "Makefile").read_text())
    named = {word for quoted, bare in expressions for word in re.findall(r"\w+", quoted or bare)} - {"and", "or", "not"}
    assert {
        name for name in named if not name.startswith(("pip", "pytest", "tools", "tests", "ottla", "benchmarks", "venv"))
    } <= declared
