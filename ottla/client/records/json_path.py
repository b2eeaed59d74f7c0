"""Evaluates JSONPath expressions (RFC 9535) on the documents of records, with a limit on the work per document.

An expression of a few characters, such as ``$..*..*..*``, may visit more nodes than a machine can count. So an evaluation that
visits more than `MAX_VISITED` nodes ends with an error, and ``match()`` and ``search()`` use RE2, which takes linear time. The
module needs the optional library python-jsonpath, so `record_filter` imports it only for filters with a JSONPath.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jsonpath import JSONPathEnvironment
from jsonpath.exceptions import JSONPathError, JSONPathRecursionError
from jsonpath.filter import FilterQuery, walk
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.segments import JSONPathRecursiveDescentSegment
from jsonpath.selectors import Filter, IndexSelector, NameSelector

from ottla.arguments import BadArgument
from ottla.client.errors import ClientError
from ottla.client.records.expressions import pattern

MAX_CHARACTERS: Final = 300
"""Maximum length of a JSONPath expression."""
MAX_VISITED: Final = 100_000
"""Maximum number of nodes that the selectors of an expression visit in one document. A selector visits a node and, unless it
selects a single member, all children of the node."""
CHARACTERS_A_NODE: Final = 100
"""Number of characters of a compared or searched text that count as one node."""
MAX_DEPTH: Final = 100
"""Maximum nesting to which a JSONPath's ``..`` descends."""


class TooManyNodes(ClientError):
    """An evaluation visited more than `MAX_VISITED` nodes."""


class _Budget:
    """The number of nodes that an evaluation may still visit."""

    def __init__(self) -> None:
        self.left = MAX_VISITED

    def spend(self, nodes: int) -> None:
        self.left -= nodes
        if self.left < 0:
            raise TooManyNodes(f"the JSONPath visits more than {MAX_VISITED:,} nodes of one document; give a narrower path")


class _BoundedSelector:
    """A selector that counts the nodes that it visits. A descendant segment calls its selectors for each object and array that it
    visits. Comparisons (`_Environment`) and functions (`_Pattern`) count their work themselves."""

    def __init__(self, selector: Any, budget: _Budget, *, takes_one: bool) -> None:
        self._selector = selector
        self._budget = budget
        self._takes_one = takes_one

    def __str__(self) -> str:
        return str(self._selector)

    def resolve(self, node: Any) -> Iterator[Any]:
        is_parent = isinstance(node.obj, dict | list)
        self._budget.spend(1 + len(node.obj) if is_parent and not self._takes_one else 1)
        yield from self._selector.resolve(node)


def _bound(path: Any, budget: _Budget) -> None:
    """Make all selectors of a path and of its filters count visited nodes in ``budget``."""
    selectors = [selector for segment in path.segments for selector in segment.selectors]
    filters = [selector.expression for selector in selectors if isinstance(selector, Filter)]
    queries = [node.path for expression in filters for node in walk(expression) if isinstance(node, FilterQuery)]
    for segment in (segment for one in [path, *queries] for segment in one.segments):
        descends = isinstance(segment, JSONPathRecursiveDescentSegment)
        segment.selectors = tuple(
            _BoundedSelector(one, budget, takes_one=isinstance(one, NameSelector | IndexSelector) and not descends)
            for one in segment.selectors
        )


class _Environment(JSONPathEnvironment):
    """A JSONPath environment that counts the nodes that filters compare, because a comparison may cover whole subtrees."""

    budget: _Budget

    def compare(self, left: object, operator: str, right: object) -> bool:
        if operator not in ("&&", "||"):
            self.budget.spend(min(_size(left), _size(right)))
        return bool(super().compare(left, operator, right))


def _size(value: object) -> int:
    """Return the number of nodes of a value, and one more for each `CHARACTERS_A_NODE` characters of its texts."""
    size, rest = 0, [value]
    while rest:
        one = rest.pop()
        size += 1
        if isinstance(one, str):
            size += len(one) // CHARACTERS_A_NODE
        elif isinstance(one, dict):
            rest += one.values()
        elif isinstance(one, list):
            rest += [getattr(each, "obj", each) for each in one]
    return size


class _Pattern(FilterFunction):
    """The JSONPath function ``match`` or ``search``, with RE2. Each instance caches its last compiled regular expression, because
    most filters have one."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]
    return_type = ExpressionType.LOGICAL

    def __init__(self, budget: _Budget, *, is_whole: bool) -> None:
        self._budget = budget
        self._is_whole = is_whole
        self._last: tuple[str, Any] = ("", None)

    def __call__(self, value: object, expression: object) -> bool:
        if not isinstance(value, str) or not isinstance(expression, str):
            return False
        self._budget.spend(_size(value) + _size(expression))
        if self._last[1] is None or self._last[0] != expression:
            try:
                self._last = expression, pattern(expression)
            except BadArgument as error:
                raise ClientError(str(error)) from None
        compiled, data = self._last[1], value.encode("utf-8", "surrogatepass")
        return (compiled.fullmatch(data) if self._is_whole else compiled.search(data)) is not None


class JsonPath:
    """A parsed JSONPath expression. Only one thread at a time may use an instance. Raises `BadArgument` for an invalid
    expression."""

    def __init__(self, expression: str) -> None:
        if len(expression) > MAX_CHARACTERS:
            raise BadArgument(f"a JSONPath has at most {MAX_CHARACTERS} characters, but this has {len(expression):,}")
        environment = _Environment(strict=True)
        environment.budget = self._budget = _Budget()
        environment.max_recursion_depth = MAX_DEPTH
        environment.function_extensions["match"] = _Pattern(self._budget, is_whole=True)
        environment.function_extensions["search"] = _Pattern(self._budget, is_whole=False)
        try:
            self._path = environment.compile(expression.strip())
        except (JSONPathError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).partition("\n")[0]
            raise BadArgument(f"{expression!r} is not a JSONPath (RFC 9535): {reason}") from None
        _bound(self._path, self._budget)

    def values(self, document: Any) -> Iterator[Any]:
        """Yield the selected values of a document. Raises `ClientError` if the evaluation fails or visits too many nodes."""
        if not isinstance(document, dict | list):
            # The library would parse a string as JSON. A scalar has no children, so only the path ``$`` selects a value.
            if self._path.empty():
                yield document
            return
        self._budget.left = MAX_VISITED
        try:
            for node in self._path.finditer(document):
                yield node.obj
        except (JSONPathRecursionError, RecursionError):
            raise ClientError(f"the JSONPath descends more than {MAX_DEPTH} levels of one document; give a narrower path") from None
        except JSONPathError as error:
            raise ClientError(f"the JSONPath fails on a document: {str(error).partition(chr(10))[0]}") from None
