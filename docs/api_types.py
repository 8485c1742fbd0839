"""Writes the types of the explorer's answers and requests for the page, from their declarations.

What Python declares in ``explorer/schema.py``, and the body of a run, become interfaces of
TypeScript with their docstrings as comments.
"""

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType

from vesalius.explorer import running, schema

HEAD = """/* What the server tells and is asked; `make docs` writes it as Python declares it. */
"""
PLAIN = {
    "str": "string",
    "int": "number",
    "float": "number",
    "bool": "boolean",
    "object": "unknown",
    "None": "null",
    "StrictStr": "string",
    "StrictInt": "number",
    "StrictBool": "boolean",
}
RENAMED = {"Wanted": "RunRequest"}
"""What the page calls it, which has one word for the body of a run."""


def api_types() -> str:
    """The whole file."""
    body = _of(running, only="Wanted")
    return "\n".join([HEAD, *_of(schema), *body]).rstrip() + "\n"


def _of(module: ModuleType, only: str = "") -> Iterator[str]:
    found = ast.parse(inspect.getsource(module)).body
    for node, after in zip(found, [*found[1:], None], strict=True):
        if isinstance(node, ast.ClassDef) and only in ("", node.name):
            yield "\n".join(_interface(node))
        elif isinstance(node, ast.Assign) and not only and isinstance(node.targets[0], ast.Name):
            said = _said(after)
            yield f"{said}export type {node.targets[0].id} = {_type(node.value)};\n"


def _interface(node: ast.ClassDef) -> Iterator[str]:
    bases = [ast.unparse(base) for base in node.bases if ast.unparse(base) in vars(schema)]
    bases = [base for base in bases if base != "TypedDict"]
    above = f" extends {', '.join(bases)}" if bases else ""
    yield f"{_said(node.body[0])}export interface {RENAMED.get(node.name, node.name)}{above} {{"
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            kind, optional = field.annotation, field.value is not None
            if isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "NotRequired":
                kind, optional = kind.slice, True
            yield f"{_said(after, 1)}  {field.target.id}{'?' if optional else ''}: {_type(kind)};"
    yield "}\n"


def _said(node: ast.stmt | None, deep: int = 0) -> str:
    """The docstring below a thing, as the comment above it: its first paragraph."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return ""
    text = inspect.cleandoc(str(node.value.value)).split("\n\n")[0].replace("\n", " ")
    return f"{'  ' * deep}/** {text} */\n"


def _type(node: ast.expr) -> str:
    """A type of Python as one of TypeScript."""
    match node:
        case ast.Constant(value=None):
            return "null"
        case ast.Constant(value=str(name)):  # declared below
            return name
        case ast.Name(id=name):
            return PLAIN.get(name, name)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return f"{_type(left)} | {_type(right)}"
        case ast.Subscript(value=ast.Name(id="Literal"), slice=what):
            said = what.elts if isinstance(what, ast.Tuple) else [what]
            return " | ".join(ast.unparse(one).replace("'", '"') for one in said)
        case ast.Subscript(value=ast.Name(id="list"), slice=what):
            inner = _type(what)
            return f"({inner})[]" if " " in inner and not inner.startswith("[") else f"{inner}[]"
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=several)):
            return f"[{', '.join(map(_type, several))}]"
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[key, value])):
            return f"Record<{_type(key)}, {_type(value)}>"
    raise TypeError(f"expected a type that TypeScript has too, got {ast.unparse(node)}")
