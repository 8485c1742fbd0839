"""Signatures of the equations, checked at run time: once for calls of the same types and shapes.

A signature says nothing of numbers. So the first call of a kind is checked, and the hundreds of
the same kind in a forward pass only have to give what it gave.
"""

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
from beartype import BeartypeConf, beartype

import vesalius

typechecked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int may stand for a float
jaxtyped = jaxtyping.jaxtyped
EQUATIONS = Path(vesalius.__file__).parent / "equations"
WITHOUT_SHAPES = {"__init__", "glossary", "references", "registry", "rules", "tracing"}
"""Modules that hold no equations; their types are checked by mypy alone."""
PASSED: dict[int, tuple[types.CodeType, dict[Any, set[Any]]]] = {}
"""Kinds of arguments with those of their results, by the code of a function: one that is defined
inside another has the same code whenever it is defined."""


def checking_signatures() -> AbstractContextManager[None]:
    """The equations that are imported inside this check their arguments and results."""
    jaxtyping.jaxtyped = checked  # for good: what is defined inside a function is decorated there
    names = {file.stem for file in EQUATIONS.glob("*.py")} - WITHOUT_SHAPES
    modules = [f"vesalius.equations.{name}" for name in names]
    return jaxtyping.install_import_hook(modules, "signatures.typechecked")


def checked(*, typechecker: Callable[..., Any]) -> Callable[..., Any]:
    """The decorator that jaxtyping's hook puts on every function and class."""
    decorate = jaxtyped(typechecker=typechecker)

    def once(thing: Any) -> Any:
        if inspect.isfunction(thing):
            return checked_once(thing, decorate)
        if dataclasses.is_dataclass(thing):
            thing.__init__ = checked_once(thing.__init__, decorate)
            return thing
        return decorate(thing)

    return once


def checked_once(plain: Any, decorate: Callable[..., Any]) -> Callable[..., Any]:
    """A function, checked where its arguments or its result are of a kind that is new."""
    code = plain.__code__  # kept, so that no other gets its id
    _, passed = PASSED.setdefault(id(code), (code, {}))
    checked = functools.cache(lambda: decorate(plain))  # which takes milliseconds

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = (*map(kind, args), *((name, kind(value)) for name, value in kwargs.items()))
        if given not in passed:
            result = checked()(*args, **kwargs)
            passed[given] = {kind(result)}
            return result
        result = plain(*args, **kwargs)
        if kind(result) not in passed[given]:
            decorate(giving(result, plain))(*args, **kwargs)
            passed[given].add(kind(result))
        return result

    return call


def giving(result: Any, function: Any) -> Any:
    """What has the function's signature and gives this, so that nothing is computed twice."""

    def given(*_: Any, **__: Any) -> Any:
        return result

    there = types.FunctionType(given.__code__, function.__globals__, closure=given.__closure__)
    return functools.update_wrapper(there, function)


def kind(value: Any) -> Any:
    """All that a signature can tell of a value, and what the shape of a result depends on."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape
    if type(value) in (tuple, list):
        return type(value), *map(kind, value)
    return (type(value), value) if isinstance(value, int) else type(value)
