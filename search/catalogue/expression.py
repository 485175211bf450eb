"""Formulas of front matter: ``(p-1)*(alpha + n*beta)``. Parsed, never executed as Python."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from search.errors import UserError

_OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,  # of floats: whole numbers would grow for ever
}


def _digits(number: float, base: float) -> int:
    """How many digits the numbers below ``number`` have: its logarithm, rounded up."""
    if base <= 1:
        raise ValueError("a base of at least 2 is expected")
    count = 0
    while base**count < number:
        count += 1
    return count


_FUNCTIONS: dict[str, Callable[..., float]] = {
    "ceil": math.ceil,
    "digits": _digits,
    "max": max,
}


_NO_FORMULA = (
    SyntaxError,
    ValueError,
    TypeError,
    KeyError,
    ArithmeticError,
    RecursionError,
    MemoryError,  # of the parser, for what is nested too deep
)


@cache
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def evaluate(formula: str, values: Mapping[str, float]) -> float:
    """The value of ``formula`` with names from ``values``; UserError if it is none."""
    try:
        value = _value(_parsed(formula), values)
        if math.isfinite(value):
            return value
        error: Exception = ValueError("it is not finite")
    except _NO_FORMULA as caught:
        error = caught
    text = f"{formula[:80]!r} is not a formula over {', '.join(sorted(values))}"
    raise UserError(text) from error


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Gt):
        return float(_value(node.left, values) > _value(node.comparators[0], values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _FUNCTIONS[node.func.id](*(_value(argument, values) for argument in node.args))
    raise ValueError(ast.dump(node))


def as_c(formula: str, parameters: Iterable[str]) -> str:
    """A formula of p, n, numeric parameters, whole numbers, +, * and > as C over size_t."""
    known = {"p": "p", "n": "n", **{name: f"values->{name}" for name in parameters}}
    if not re.fullmatch(r"[a-z_0-9+*> ()]+", formula):
        raise UserError(f"{formula[:80]!r}: memory is a formula of p, n, numbers, '+', '*' and '>'")
    evaluate(formula, dict.fromkeys(known, 3))
    spaced = re.sub(r"\s*([+*>])\s*", r" \1 ", formula)
    return re.sub(r"[a-z_]+", lambda word: known[word[0]], spaced)
