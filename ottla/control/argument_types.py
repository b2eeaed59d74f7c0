"""Checks the types of arguments of public methods that tests call: a TypeError says in one line which type was expected.

The types are read from the annotations. Only plain types are checked; records, faults and settings have checks of their own.
"""

from __future__ import annotations

import ast
import inspect
import reprlib
from collections.abc import Callable, Mapping
from functools import wraps
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

C = TypeVar("C")


class _Expected(NamedTuple):
    """A plain type: its name in error messages, and a function that checks whether a value has the type."""

    text: str
    has: Callable[[Any], bool]


_PLAIN = {
    # numpy's integers are accepted as an int. A bool is refused, although `bool` is a subclass of `int`.
    "int": _Expected("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    "float": _Expected("a number", lambda value: isinstance(value, Real) and not isinstance(value, bool)),
    "str": _Expected("a text", lambda value: isinstance(value, str)),
    # Whole numbers and numpy's bools are accepted as a bool.
    "bool": _Expected("True or False", lambda value: isinstance(value, Integral) or type(value).__name__ in ("bool", "bool_")),
    "Path": _Expected("a Path", lambda value: hasattr(value, "__fspath__")),
    "None": _Expected("None", lambda value: value is None),
    "Mapping": _Expected("a dict", lambda value: isinstance(value, Mapping) or _is_pairs(value)),
    "Callable": _Expected("a function", callable),
}


def _is_pairs(value: Any) -> bool:
    """Whether the value is a list or tuple of pairs, which `dict` accepts."""
    return isinstance(value, list | tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)


def checks_argument_types(owner: type[C]) -> type[C]:
    """Let the constructor and all public methods of a class raise TypeError for arguments of another type than the annotation."""
    for name, function in list(vars(owner).items()):
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            setattr(owner, name, _checking(function))
    return owner


def _checking(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    single = {name: one for name, one in signature.parameters.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
    wanted = {name: found for name, one in single.items() if (found := _expected(one.annotation))}

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        try:
            bound = signature.bind(*given, **named).arguments
        except TypeError:
            # Call the method, so that Python raises its own error for a missing or unknown argument.
            return function(*given, **named)
        for name, value in bound.items():
            expected = wanted.get(name, ())
            if expected and not any(one.has(value) for one in expected):
                texts = " or ".join(one.text for one in expected)
                raise TypeError(f"{name}: expected {texts}, not {reprlib.repr(value)}")
        return function(*given, **named)

    return call if wanted else function


def _expected(annotation: Any) -> tuple[_Expected, ...]:
    """Return the types in an annotation's text, or an empty tuple if one of the types is not plain."""
    if not isinstance(annotation, str):
        return ()
    names = _names(ast.parse(annotation, mode="eval").body)
    return tuple(_PLAIN[name] for name in names) if all(name in _PLAIN for name in names) else ()


def _names(node: ast.expr) -> list[str]:
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_names(left), *_names(right)]
        case ast.Subscript(value=ast.Name(id=name)) | ast.Name(id=name):
            return [name]
        case ast.Constant(value=None):
            return ["None"]
    return [""]
