"""Values in the place of ``{name}`` in the text of an input file: formats, arithmetic and widths of fields."""

from __future__ import annotations

import ast
import math
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tbq.common.errors import ArgumentError, SimulatorError

_DIGITS = 12  # significant digits of a value that is written without a format
_LEAST_DIGITS = 3  # of a value that is cut to its field: with fewer the run would be of another theta
_FIELDS = (16, 10, 8)  # columns of the fixed fields that programs have
_WIDEST = 200  # columns and digits of a format: a run's input is no place for megabytes of blanks
_DEEP, _LONG = 50, 500  # operations within each other, and characters, of what can be arithmetic
_BRACES = re.compile(r"\{([^{}\n]*)\}")
_FORMAT = re.compile(r"(?P<align>.?[<>=^])?[ +-]?z?#?0?(?P<width>\d+)?[,_]?(?P<digits>\.\d+)?(?P<kind>[eEfFgGn%])?")

_OPERATIONS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "min": min, "max": max, "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "log10": math.log10,
    "sin": math.sin, "cos": math.cos, "tan": math.tan,
}  # fmt: skip
CONSTANTS = {"pi": math.pi}


@dataclass(frozen=True)
class Place:
    """Where a value goes."""

    text: str  # such as "{E*1e3:10.4E}"
    start: int
    line: int
    value: ast.expr | str  # what is computed, or the name of a parameter
    format: str

    @property
    def names(self) -> set[str]:
        """Of the parameters in it, as Python spells them where they are computed with."""
        return {self.value} if isinstance(self.value, str) else _names(self.value)

    @property
    def width(self) -> int | None:
        """Columns of its field, where the format states them."""
        match = _FORMAT.fullmatch(self.format)
        return int(match["width"]) if match and match["width"] else None

    def filled(self, values: Mapping[str, float]) -> str:
        """The text that takes its place; never longer than a stated width."""
        number = self._computed(values)
        if not self.format:
            return shortest(number)
        match = _FORMAT.fullmatch(self.format)
        if any(int(number) > _WIDEST for number in re.findall(r"\d{1,20}", self.format)):
            raise ArgumentError(f"{self.text[:40]} is not a number format: more than {_WIDEST} columns or digits")
        if match and match["width"] and not (match["digits"] or match["kind"] or match["align"]):
            return fitted(number, int(match["width"]), self.text)
        try:
            text = format(number, self.format)
        except ValueError as error:
            raise ArgumentError(
                f"{self.text} is not a number format; write {self.text.partition(':')[0]}:.6e}}, say"
            ) from error
        if self.width is not None and len(text) > self.width:
            raise SimulatorError(
                f"line {self.line}: {self.text} is {text}, of {len(text)} characters, and its field has {self.width}; "
                f"write fewer digits, or {self.text.partition(':')[0]}:{self.width}}} for as many as fit"
            )
        return text

    def _computed(self, values: Mapping[str, float]) -> float:
        if isinstance(self.value, str):
            return values[self.value]
        try:
            number = _evaluate(self.value, {unicodedata.normalize("NFKC", n): v for n, v in values.items()})
            if not math.isfinite(number):
                raise ValueError(f"it is {number}")
        except (ArithmeticError, ValueError) as error:
            shown = ", ".join(f"{n} = {v:g}" for n, v in values.items() if n in self.names)
            why = "it is too large" if isinstance(error, OverflowError) else error
            raise SimulatorError(f"line {self.line}: {self.text} cannot be computed at {shown}: {why}") from error
        return float(number)


def fill(text: str, values: Mapping[str, float]) -> str:
    """Put values in the place of ``{name}``, ``{name:format}`` or ``{arithmetic:format}``; all other braces stay."""
    parts, end = [], 0
    for place in places(text, list(values)):
        parts += [text[end : place.start], place.filled(values)]
        end = place.start + len(place.text)
    return "".join([*parts, text[end:]])


def places(text: str, names: Sequence[str]) -> list[Place]:
    """Where values go: braces around the name of a parameter, or around arithmetic that has one in it."""
    exact = re.compile("(" + "|".join(re.escape(n) for n in names) + ")(?::(.*))?") if names else None
    found: list[Place] = []
    line, seen = 1, 0
    for match in _BRACES.finditer(text):
        line, seen = line + text.count("\n", seen, match.start()), match.start()
        if exact is not None and (known := exact.fullmatch(match[1])):
            found.append(Place(match[0], match.start(), line, known[1], known[2] or ""))
            continue
        expression, _, form = match[1].partition(":")
        if (tree := _arithmetic(expression, names, match[0])) is not None:
            found.append(Place(match[0], match.start(), line, tree, form))
    return found


def check_places(text: str, names: Sequence[str]) -> set[str]:
    """The names of the parameters that reach the text, each in a format that exists and can hold a number."""
    reached: set[str] = set()
    for place in places(text, names):
        plain = Place(place.text, place.start, place.line, "1", place.format)
        try:
            plain.filled({"1": 1.0})
        except SimulatorError as error:
            raise ArgumentError(f"{place.text}: no number fits into its {place.width} columns") from error
        reached |= {n for n in names if n in place.names or unicodedata.normalize("NFKC", n) in place.names}
    return reached


def shortest(number: float) -> str:
    """A number as programs read it, to twelve digits at most: more are nobody's, and some fields have no room for them.

    A whole one keeps its point, which tells it from an integer.
    """
    return repr(float(f"{number:.{_DIGITS}g}"))


def fitted(number: float, width: int, text: str) -> str:
    """A number with as many digits as fit, at the right of its field."""
    for digits in range(_DIGITS, 0, -1):
        rounded = float(f"{number:.{digits}g}")
        mantissa, _, exponent = f"{number:.{digits - 1}E}".partition("E")
        forms = [repr(rounded), f"{mantissa if '.' in mantissa else mantissa + '.'}E{int(exponent)}"]
        if fits := [form for form in forms if len(form) <= width]:
            if digits < _LEAST_DIGITS and rounded != number:
                break
            return fits[0].rjust(width)
    raise SimulatorError(f"{text}: {number:g} has less than {_LEAST_DIGITS} digits in {width} columns")


# --- arithmetic ---------------------------------------------------------------------------------------------


def _arithmetic(text: str, names: Sequence[str], shown: str) -> ast.expr | None:
    """What is to be computed; None where this is no arithmetic, or has no parameter in it."""
    if len(text) > _LONG or not any(name in text for name in names):
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        known = _is_arithmetic(tree)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    inside = {unicodedata.normalize("NFKC", name) for name in names}
    if not known or not _names(tree) & inside:
        return None
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name, n = ast.unparse(call.func), len(call.args)
        if not (n >= 2 if name in ("min", "max") else n == 1 or (n == 2 and name == "log")):
            raise ArgumentError(f"{shown}: {name} does not take {n} {'number' if n == 1 else 'numbers'}")
    if unknown := sorted(_names(tree) - inside - set(CONSTANTS)):
        raise ArgumentError(
            f"{shown}: there is no parameter {', '.join(unknown)}; there are {', '.join(names)}, "
            f"{', '.join(CONSTANTS)} and the functions {', '.join(FUNCTIONS)}"
        )
    return tree


def _is_arithmetic(tree: ast.AST, depth: int = 0) -> bool:
    parts: list[ast.expr]
    match tree:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.Name():
            return True
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            parts = [left, right]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATIONS:
            parts = [operand]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            parts = arguments
        case _:
            return False
    return bool(parts) and depth < _DEEP and all(_is_arithmetic(part, depth + 1) for part in parts)


def _names(tree: ast.AST) -> set[str]:
    functions = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in functions}


def _evaluate(tree: ast.AST, values: Mapping[str, float]) -> float:
    """The value of a tree that :func:`_is_arithmetic` has passed; floats all the way, so that nothing grows large."""
    match tree:
        case ast.Constant(value=value):
            return float(value)  # type: ignore[arg-type]
        case ast.Name(id=name):
            return values[name] if name in values else CONSTANTS[name]
        case ast.BinOp(left=left, op=op, right=right):
            number = _OPERATIONS[type(op)](_evaluate(left, values), _evaluate(right, values))
            if isinstance(number, complex):  # whose abs() would be a number again, and a wrong one
                raise ValueError(f"a root of a negative number is {number:.3g}")
            return float(number)
        case ast.UnaryOp(op=op, operand=operand):
            return float(_OPERATIONS[type(op)](_evaluate(operand, values)))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return float(FUNCTIONS[name](*(_evaluate(a, values) for a in arguments)))
    raise TypeError(ast.dump(tree))


# --- what can go wrong --------------------------------------------------------------------------------------


def tight_places(text: str, names: Sequence[str]) -> list[str]:
    """Places without a format where a value of any length may run into its neighbours, or out of its field; and braces
    that stay though a parameter is named in them."""
    found, lines = [], text.split("\n")
    known = places(text, names)
    for place in known:
        if place.format:
            continue
        line = lines[place.line - 1]
        start = place.start - (text.rfind("\n", 0, place.start) + 1)
        before, after = line[:start][-1:], line[start + len(place.text) :][:1]
        inner = place.text[1:-1]
        how = f"the value has up to {_DIGITS + 7} characters; write {{{inner}:8}}, say"
        if re.match(r"[\w.}+-]", before) or re.match(r"[\w.{]", after):
            found.append(f"line {place.line}: {place.text} touches what stands beside it, and {how}")
        elif width := _field_width(line):
            found.append(f"line {place.line}: this looks like fields of {width} columns, and {how} for {place.text}")
    filled = {place.start for place in known}
    for match in _BRACES.finditer(text):
        if match.start() not in filled and set(re.findall(r"[^\W\d]\w*", match[1])) & set(names):
            line_number = text.count("\n", 0, match.start()) + 1
            found.append(f"line {line_number}: {match[0]} stays as it is: it is no arithmetic that can be computed")
    return found


def _field_width(line: str) -> int | None:
    """The width of the fields of a line that has at least three, each of which begins where one may; else None."""
    if re.search(r"[,;=]", line):
        return None
    starts = [m.start() for m in re.finditer(r"(?<!\S)\S", line)]
    return next((w for w in _FIELDS if len(starts) >= 3 and all(s % w == 0 for s in starts)), None)
