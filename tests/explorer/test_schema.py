"""What the page is told has the shape that is declared, from which the page's types are written."""

import types
import typing
from urllib.parse import quote

import pytest

from vesalius import specimens
from vesalius.explorer import schema

OPTIONAL = typing.NotRequired


def misfits(value, kind, place="answer"):
    """Where a value has another shape than the declared one."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if typing.is_typeddict(kind):
        if not isinstance(value, dict):
            return [f"{place}: {value!r} is no {kind.__name__}"]
        declared = typing.get_type_hints(kind, include_extras=True)
        wanted = {k for k, one in declared.items() if typing.get_origin(one) is not OPTIONAL}
        lacking = [f"{place}: there is no {name}" for name in wanted - value.keys()]
        below = (misfits(value[k], declared[k], f"{place}.{k}") for k in declared.keys() & value)
        return lacking + [one for found in below for one in found]
    if origin is OPTIONAL:
        return misfits(value, inner[0], place)
    if origin in (typing.Union, types.UnionType):
        return [] if any(not misfits(value, one) for one in inner) else [f"{place}: {value!r}"]
    if origin is typing.Literal:
        return [] if value in inner else [f"{place}: {value!r} is none of {inner}"]
    if origin is dict and isinstance(value, dict):
        return [x for k, one in value.items() for x in misfits(one, inner[1], f"{place}[{k}]")]
    if origin is list and isinstance(value, list):
        return [x for k, one in enumerate(value) for x in misfits(one, inner[0], f"{place}[{k}]")]
    if origin is tuple and isinstance(value, list) and len(value) == len(inner):
        pairs = enumerate(zip(value, inner, strict=True))
        return [x for k, (one, of) in pairs for x in misfits(one, of, f"{place}[{k}]")]
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return []
    fits = kind is object or (isinstance(kind, type) and type(value) is kind)
    return [] if fits else [f"{place}: {value!r} is no {kind}"]


@pytest.fixture(scope="module", params=sorted(specimens.specimens()))
def answers(request, client):
    """Real answers of a specimen, each with its declared shape."""
    about = client.get(f"/api/models/{request.param}").json()
    read = {"text": about["text"]} if about["reads"] == "text" else {"example": about["begins"]}
    if about["reads"] != "text" and about["begins"] is None:
        pytest.skip(f"{request.param} has no examples on this machine")
    made = client.post("/api/runs", json={"model": request.param, **read}).json()
    run = client.get(f"/api/runs/{made['id']}").json()
    target = run["target"]
    cell = ",".join(map(str, target["at"]))
    below = f"/api/runs/{made['id']}"
    found = [(about, schema.ModelInfo), (run, schema.Summary)]
    unfolded = client.get(f"{below}/unfold/{quote(target['step'], safe='')}/{cell}").json()
    found += [(unfolded, schema.Unfolding)]
    if request.param == "gpt":  # which another implementation computes too
        found += [(client.get(f"{below}/check").json(), schema.Check)]
    found += [(one, schema.Effect) for one in client.get(f"{below}/cuts?layer=1").json()]
    if run["forecast"]:
        found += [(client.get(f"{below}/forecast?channel=0").json(), schema.Course)]
    return found


def test_answers_have_the_declared_shape(answers):
    assert [misfit for value, kind in answers for misfit in misfits(value, kind)] == []


def test_equations_and_models_have_the_declared_shape(client):
    equations = client.get("/api/equations").json().values()
    models = client.get("/api/models").json()
    found = [x for one in equations for x in misfits(one, schema.Equation)]
    assert found + [x for one in models for x in misfits(one, schema.ModelName)] == []


def test_a_field_that_is_lacking_or_of_another_kind_is_noticed():
    word = {"id": 1, "token": " head", "rank": 1, "probability": 0.4, "value": 9.1}
    assert misfits(word, schema.Word) == []
    assert misfits(word | {"rank": "1", "probability": None}, schema.Word)
    assert misfits({k: word[k] for k in word if k != "token"}, schema.Word)
