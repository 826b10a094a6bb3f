"""Small faults of a program, one at a time: what may be written wrong, and where.

A mutation replaces one node of the syntax tree. Words (texts, annotations, what is raised)
are left alone, and so is what cannot matter, such as `float(...)` around a number.
"""

import ast
import copy
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

OPERATORS = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mod,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
PAIRS = (
    ("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all"),
    ("sum", "mean"), ("var", "std"), ("floor", "ceil"), ("low", "high"), ("ppf", "cdf"),
    ("sf", "cdf"), ("left", "right"), ("first", "second"), ("isin", "setdiff1d"),
)  # fmt: skip
NAMES = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
NAMES |= {"value": "low"}
# Around one argument these change nothing that a result shows, or are missed at once.
TRANSPARENT = {"float", "int", "str", "bool", "list", "tuple", "asarray", "len", "range",
               "enumerate", "dict", "array", "cast", "iter", "describe", "join",
               "append"}  # fmt: skip
WORDS = (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom, ast.Assert)


class Mutation(NamedTuple):
    """One change: the file, the line's function, the text before and after, and which."""

    file: str  # From the root of the project.
    function: str  # The function or class in which it is, dotted; empty outside.
    before: str  # The node's text.
    after: str  # What takes its place.
    count: int  # Of those alike in the function, which.

    def __str__(self) -> str:
        place = f"{self.file} {self.function}".strip()
        return f"{place}: {self.before} -> {self.after}" + f" ({self.count})" * (
            self.count > 0
        )


def changes_of(node: ast.AST) -> Iterator[ast.AST]:
    """Give what may stand wrongly in the place of a node."""
    match node:
        case ast.Compare(ops=[operator]) | ast.BoolOp(op=operator) | ast.BinOp(op=operator):
            field = "ops" if isinstance(node, ast.Compare) else "op"
            for other in OPERATORS.get(type(operator), ()):
                yield _with(node, **{field: [other()] if field == "ops" else other()})
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return  # The number itself changes: -1 is the last axis of two, and so is 1.
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
            if value > 0:
                yield ast.Constant(value - 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(2 * value or 1.0)
        case ast.Attribute(attr="T", value=value):
            yield value
        case ast.Attribute(attr=name) if name in NAMES:
            yield _with(node, attr=NAMES[name])
        case ast.Name(id=name) if name in NAMES and isinstance(node.ctx, ast.Load):
            yield _with(node, id=NAMES[name])
        case ast.IfExp(body=body, orelse=orelse):
            yield _with(node, body=orelse, orelse=body)
        case ast.Call():
            yield from _changed_calls(node)
        case ast.Return(value=ast.Tuple(elts=[_, _, *_] as parts)):
            yield _with(node, value=_with(node.value, elts=parts[::-1]))
        case ast.If(body=[ast.Return() | ast.Continue()], orelse=[]):
            yield _with(node, test=ast.Constant(False))
        case ast.AugAssign():
            yield ast.Pass()


def _changed_calls(node: ast.Call) -> Iterator[ast.AST]:
    """Give the argument itself, the other order, a default; of functions, not of types."""
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
    if name in TRANSPARENT or name[:1].isupper():
        return
    match node.args:
        case [ast.Starred(), *_]:
            return
        case [only] if not node.keywords:
            yield only
        case [one, other] if not node.keywords:
            yield one
            if isinstance(one, ast.Name) and isinstance(other, ast.Name):
                yield _with(node, args=[other, one])
    for index in range(len(node.keywords)):
        yield _with(node, keywords=node.keywords[:index] + node.keywords[index + 1 :])


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _places(node: ast.AST, function: str = "") -> Iterator[tuple[str, Callable, ast.AST]]:
    """Every node that may be changed: its function, what puts another there, and itself."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or isinstance(child, WORDS):
                continue
            name = getattr(child, "name", "") if isinstance(child, ast.stmt) else ""
            inside = ".".join(filter(None, (function, name)))

            def put(other, node=node, field=field, index=index):
                if isinstance(old := getattr(node, field), list):
                    other = [*old[:index], other, *old[index + 1 :]]
                setattr(node, field, other)

            yield function, put, child
            yield from _places(child, inside)


def mutations(
    file: str, root: Path = ROOT, function: str | None = None
) -> Iterator[tuple[Mutation, ast.Module]]:
    """Give every mutation of a file, or function, with its tree, valid until the next."""
    tree, seen = ast.parse((root / file).read_text("utf-8")), {}
    for place, put, node in list(_places(tree)):
        if function not in (None, place):
            continue
        for other in changes_of(node):
            before, after = ast.unparse(node), ast.unparse(other)
            key = (place, before, after)
            seen[key] = seen.get(key, -1) + 1
            put(ast.fix_missing_locations(ast.copy_location(other, node)))
            yield Mutation(file, *key, seen[key]), tree
            put(node)


def tree_of(mutation: Mutation, root: Path = ROOT) -> ast.Module:
    """The changed file's syntax tree."""
    trees = mutations(mutation.file, root, mutation.function)
    return next(tree for one, tree in trees if one == mutation)


def marked(file: str, root: Path = ROOT) -> ast.Module:
    """Give the tree of a file whose functions say when they are entered."""
    tree = ast.parse((root / file).read_text("utf-8"))
    for inside, _, node in list(_places(tree)):
        if isinstance(node, ast.FunctionDef):
            place = ".".join(filter(None, (inside, node.name)))
            call = ast.parse(f"mutations_enter({f'{file} {place}'!r})").body
            first = ast.get_docstring(node, clean=False) is not None
            node.body[first:first] = call
    return ast.fix_missing_locations(tree)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Give the code and all that is defined in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from codes_in(const)


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def at_import(tree: ast.Module) -> list[tuple]:
    """Give what a module does when it is imported: its body, its classes', its lists'."""
    codes = codes_in(compile(tree, "", "exec"))
    return [
        (one.co_code, one.co_names, [c for c in one.co_consts if type(c) is not CodeType])
        for one in codes
        if not one.co_flags & inspect.CO_OPTIMIZED
        or (one.co_qualname.startswith("<") and one.co_name != "<lambda>")
    ]


def acts_at_import(mutation: Mutation, root: Path = ROOT) -> bool:
    """Whether a mutation changes what happens while its module is imported."""
    before = ast.parse((root / mutation.file).read_text("utf-8"))
    return at_import(before) != at_import(tree_of(mutation, root))


def change(
    functions: Iterable[FunctionType], mutation: Mutation, root: Path = ROOT
) -> None:
    """Give the functions of a file the code that they have with the mutation."""
    path = str(root / mutation.file)
    whole = compile(tree_of(mutation, root), path, "exec")
    changed = {_place(one): one for one in codes_in(whole)}
    for function in functions:
        if function.__code__.co_filename == path:
            function.__code__ = changed.get(_place(function.__code__), function.__code__)
