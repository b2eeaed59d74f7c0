"""Finds out from source code whether a value that is read is used, to detect configs that are read and then ignored.

A read is followed through arguments, local names and attributes until the value is compared, computed with, returned or given to
code outside the searched packages. Attributes are told apart by name only, so an ignored attribute with the name of a used one is
not found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)
CARRIERS = (ast.IfExp, ast.Tuple, ast.List, ast.Starred, ast.NamedExpr)
"""Expressions that only pass a value on."""


@dataclass(slots=True)
class Sources:
    """The syntax trees of the searched modules, with an index of what a value may flow into."""

    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    loads: dict[str, list[ast.expr]] = field(default_factory=dict)
    """Reads of attributes, by attribute name."""
    calls: dict[str, list[ast.expr]] = field(default_factory=dict)
    """Calls that have a string as an argument, by this string."""
    parameters: dict[str, list[tuple[list[str], Function | None]]] = field(default_factory=dict)
    """Name of a function or class -> its parameters, and the function, or None if they are the fields of a class."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> Sources:
        made = cls()
        for text in texts:
            made._add(ast.parse(text))
        return made

    def _add(self, tree: ast.Module) -> None:
        for parent in ast.walk(tree):
            for child in ast.iter_child_nodes(parent):
                self.parents[child] = parent
            if isinstance(parent, ast.Attribute) and isinstance(parent.ctx, ast.Load):
                self.loads.setdefault(parent.attr, []).append(parent)
            elif isinstance(parent, ast.Call):
                for argument in parent.args:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        self.calls.setdefault(argument.value, []).append(parent)
            elif isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
                self._add_parameters(parent.name, parent)
            elif isinstance(parent, ast.ClassDef):
                self._add_class(parent)

    def _add_parameters(self, name: str, function: Function) -> None:
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
        self.parameters.setdefault(name, []).append(([n for n in names if n not in ("self", "cls")], function))

    def _add_class(self, node: ast.ClassDef) -> None:
        for child in node.body:
            if isinstance(child, ast.FunctionDef) and child.name == "__init__":
                self._add_parameters(node.name, child)
                return
        fields = [child.target.id for child in node.body if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name)]
        self.parameters.setdefault(node.name, []).append((fields, None))

    def is_used(self, read: ast.expr, seen: set[ast.AST] | None = None) -> bool:
        """Whether the value of ``read`` reaches something other than a discarded expression or an unused name."""
        seen = set() if seen is None else seen
        if read in seen:
            return False
        seen.add(read)
        parent = self.parents[read]
        if isinstance(parent, ast.Expr):
            return False
        if isinstance(parent, ast.keyword):
            call = self.parents[parent]
            return not isinstance(call, ast.Call) or self._is_argument_used(call, parent.arg, None, seen)
        if isinstance(parent, ast.Call) and read is not parent.func:
            return self._is_argument_used(parent, None, parent.args.index(read), seen)
        if isinstance(parent, ast.Assign | ast.AnnAssign) and read is parent.value:
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            return any(self._is_target_used(target, read, seen) for target in targets)
        if isinstance(parent, CARRIERS) and not (isinstance(parent, ast.IfExp) and read is parent.test):
            return self.is_used(parent, seen)
        return True

    def _is_target_used(self, target: ast.expr, read: ast.expr, seen: set[ast.AST]) -> bool:
        if isinstance(target, ast.Name):
            return self._is_name_used(target.id, self._scope(read), seen)
        if isinstance(target, ast.Attribute):
            return any(self.is_used(load, seen) for load in self.loads.get(target.attr, []))
        if isinstance(target, ast.Tuple | ast.List):
            return any(self._is_target_used(element, read, seen) for element in target.elts)
        return True

    def _is_name_used(self, name: str, scope: ast.AST, seen: set[ast.AST]) -> bool:
        return any(self.is_used(load, seen) for load in _names(name, scope))

    def _scope(self, node: ast.AST) -> ast.AST:
        while not isinstance(node, SCOPES):
            node = self.parents[node]
        return node

    def _is_argument_used(self, call: ast.Call, keyword: str | None, position: int | None, seen: set[ast.AST]) -> bool:
        name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""
        known = self.parameters.get(name)
        if not known:
            # The callee is outside the searched modules, such as a function of Python.
            return True
        for names, function in known:
            parameter = keyword
            if position is not None and position < len(names):
                parameter = names[position]
            if parameter is None or parameter not in names:
                return True
            if function is None:
                if any(self.is_used(load, seen) for load in self.loads.get(parameter, [])):
                    return True
            elif self._is_name_used(parameter, function, seen):
                return True
        return False


def _names(name: str, scope: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            yield node
