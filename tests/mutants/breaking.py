"""Applies a mutant to the source of a module."""

from __future__ import annotations

import ast

from tests.mutants.mutants import Mutant


class Unmatched(Exception):
    """The code that a mutant replaces does not occur in the module, or occurs more than once."""


def broken(source: str, mutant: Mutant) -> str:
    """Return the module's source with the mutant applied, generated from the syntax tree. Raises `Unmatched`."""
    tree = ast.parse(source)
    old, new = ast.parse(mutant.old).body, ast.parse(mutant.new).body
    scope = _scope(tree, mutant.function)
    if _is_expression(old) and _is_expression(new):
        change = _ChangeExpression(old[0].value, new[0].value)
    else:
        change = _ChangeStatements(old, new or [ast.Pass()])
    change.visit(scope)
    if change.matches != 1:
        raise Unmatched(
            f"{mutant.name}: {mutant.old!r} stands {change.matches} times in {mutant.file}, {mutant.function or 'the module'}"
        )
    return ast.unparse(ast.fix_missing_locations(tree))


def _scope(tree: ast.Module, function: str) -> ast.AST:
    scope: ast.AST = tree
    for name in filter(None, function.split(".")):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        named = [node for node in ast.iter_child_nodes(scope) if isinstance(node, kinds) and node.name == name]
        if len(named) != 1:
            raise Unmatched(f"{function}: {len(named)} times {name}")
        (scope,) = named
    return scope


def _is_expression(body: list[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Expr)


class _ChangeExpression(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._old = ast.dump(old)
        self._new = new
        self.matches = 0

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.dump(node) == self._old:
            self.matches += 1
            return self._new
        return self.generic_visit(node)


class _ChangeStatements(ast.NodeTransformer):
    """Replaces a sequence of consecutive statements of one block."""

    def __init__(self, old: list[ast.stmt], new: list[ast.stmt]) -> None:
        self._old = [ast.dump(statement) for statement in old]
        self._new = new
        self.matches = 0

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        for name, block in ast.iter_fields(node):
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                setattr(node, name, self._changed(block))
        return node

    def _changed(self, block: list[ast.stmt]) -> list[ast.stmt]:
        dumps, length = [ast.dump(statement) for statement in block], len(self._old)
        places = [at for at in range(len(block) - length + 1) if dumps[at : at + length] == self._old]
        self.matches += len(places)
        return [*block[: places[0]], *self._new, *block[places[0] + length :]] if places else block
