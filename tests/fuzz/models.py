"""Models that are edited, sampled from, taken apart and saved: results against a second reckoning.

What may come out is a result, checked against one that is made another way, or an error of ours.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from lively import MODELS, lively
from strategies import SMALL, filled, small

from vesalius import generate
from vesalius.analyses.attribution import attribute
from vesalius.dissection import dissect
from vesalius.errors import BrokenFile, NotFinite
from vesalius.generation.sampling import Draw, Sampling, softmax
from vesalius.model import Model, load_folder

Case = Callable[[], object]


def edited(random: Random, array: np.ndarray) -> str:
    """Change an array in place, through a view of it; what was done."""
    view = random.choice((array, array.T, array[::-1], array[..., ::-1]))
    size = view.shape[0]
    i, j = random.randrange(size), random.randrange(size)
    kind = random.choice(("swap", "negate", "next", "scale", "zero", "copy", "one"))
    if kind == "swap":
        view[[i, j]] = view[[j, i]]
    elif kind == "negate":
        view[i] *= -1
    elif kind == "next":
        view[i] = np.nextafter(view[i], view.dtype.type(9))
    elif kind == "scale":
        view *= view.dtype.type(random.choice((1.00004, 0.5, -1, 1e3, 1e-3)))
    elif kind == "zero":
        view[i:] = 0
    elif kind == "copy":
        view[i] = view[j]
    else:
        view[(i, *(random.randrange(n) for n in view.shape[1:]))] += 1
    return kind


def fresh(model: Model) -> Model:
    """A model of the same numbers that has computed nothing yet."""
    return Model(model.config, {name: array.copy() for name, array in model.state.items()})


def drawn(model: Model, prompt: Sequence[int], dtype: str) -> list[np.ndarray] | None:
    """The logits of some new tokens; None where they are refused for NaN or infinity."""
    logits: list[np.ndarray] = []
    try:
        generate(
            model,
            prompt,
            3,
            dtype=dtype,
            threads=1,
            seed=1,
            on_draw=lambda _, draw: logits.append(draw.logits.copy()),
        )
    except NotFinite:
        return None
    return logits


class Engines:
    """Weights edited after a first ``generate``: the engine follows, as a fresh model would.

    With NaN among the weights, int8 refuses whatever float32 refuses: rounding hides none.
    """

    def __init__(self, folder: Path) -> None:
        names = [name for name in MODELS if name != "ffnn, wide"]
        self.models = {name: lively(*MODELS[name]) for name in names}
        for model in self.models.values():  # which compiles what it needs
            for dtype in ("float32", "int8"):
                for length in (1, 3, 40):
                    drawn(model, [1] * length, dtype)

    def case(self, random: Random, place: Path) -> Case:
        name, dtype = random.choice(list(self.models)), random.choice(("float32", "int8"))
        model = deepcopy(self.models[name])
        prompt = [random.randrange(101) for _ in range(random.choice((1, 2, 5, 40)))]
        seed, nan = random.random(), random.random() < 0.3
        (place / "case").write_text(f"{name} {dtype} {prompt} {'NaN' if nan else ''}")

        def edit_and_generate() -> None:
            again = Random(seed)
            drawn(model, prompt, dtype)
            for _ in range(again.choice((1, 1, 2, 5))):
                _edit_some(again, model)
                if nan:
                    array = again.choice(list(model.state.values()))
                    array.reshape(-1)[again.randrange(array.size)] = np.nan
                got, wanted = drawn(model, prompt, dtype), drawn(fresh(model), prompt, dtype)
                assert (got is None) == (wanted is None), "refused, or not, unlike a fresh model"
                for one, other in zip(got or (), wanted or (), strict=True):
                    np.testing.assert_array_equal(one, other)
            if nan and drawn(model, prompt, "float32") is None:
                assert drawn(model, prompt, "int8") is None, "int8 hides NaN"

        return edit_and_generate


def _edit_some(random: Random, model: Model) -> None:
    """Edit weights by one of the ways to reach them."""
    name = random.choice(list(model.state))
    roll = random.random()
    if roll < 0.5:
        edited(random, model.state[name])
    elif roll < 0.7:
        changed = model.state[name].copy()
        edited(random, changed)
        model.state[name] = changed
    else:
        parameters = list(model.network.parameters())
        edited(random, random.choice(parameters).detach().numpy())


NUMBERS = (0.0, 1e-320, 5e-324, 1e-308, 1e-45, 1e-9, 0.3, 0.9, 1.0, 1.5, 2.0, 1e9, 1e38, 1e300)
NUMBERS = (*NUMBERS, -1.0, math.inf, math.nan, 1 - 2**-53, 1 + 2**-52, sys.float_info.max)
WHOLE = (0, 1, 2, 3, 17, 2**31, 2**63, 10**400, -1)
LOGITS = (0.0, 1.0, -1.0, 1e-45, 88.7, 104.0, -104.0, 1e30, 3.4e38, -3.4e38, 3.3e38, 7.25)


class Extremes:
    """Settings of the sampler at their ends: a token that may be drawn, odds that sum to 1."""

    def __init__(self, folder: Path) -> None:
        self.model = lively(*MODELS["lstm"])

    def case(self, random: Random, place: Path) -> Case:
        names = ("temperature", "top_p", "min_p", "repetition_penalty")
        settings: dict[str, Any] = {
            name: random.choice(NUMBERS) for name in names if random.random() < 0.5
        }
        if random.random() < 0.5:
            settings["top_k"] = random.choice(WHOLE)
        size = random.choice((1, 2, 3, 17))
        few = random.sample(LOGITS, 3) if random.random() < 0.3 else LOGITS
        logits = np.array([random.choice(few) for _ in range(size)], np.float32)
        before = np.array([random.randrange(size) for _ in range(random.choice((0, 1, 9)))], int)
        chance = random.choice((0.0, 0.5, random.random(), 1 - 2**-53))
        (place / "case").write_text(f"{settings} {logits.tolist()} {before.tolist()} {chance}")
        if random.random() < 0.2:
            return lambda: generate(self.model, [1, 2], 3, threads=1, **settings)
        return lambda: _hold(Draw(logits, Sampling(**settings), before, chance))


def _hold(draw: Draw) -> None:
    """What is true of every draw."""
    odds, kept, sampling = draw.probabilities, draw.kept, draw.sampling
    assert np.isfinite(draw.penalised).all()
    assert np.isfinite(draw.tempered).all()
    assert np.isfinite(odds).all()
    assert abs(odds.sum() - 1) < 1e-9
    assert not odds[~kept].any()
    assert kept[draw.token]
    assert odds[draw.token] > 0
    every = softmax(draw.tempered)
    assert every[kept].max() == every.max(), "the likeliest is always kept"
    if sampling.top_k is not None and sampling.temperature:
        least = np.sort(draw.tempered)[::-1][: sampling.top_k][-1]
        assert (draw.tempered[kept] >= least).all()
    told = draw.to_json()
    assert all(math.isfinite(number) for row in told["candidates"] for number in row.values()
               if isinstance(number, float))  # fmt: skip
    repr(draw)


class Sums:
    """Attributions over texts of any length: what is called exact sums to the value."""

    def __init__(self, folder: Path) -> None:
        families = ("rnn", "lstm", "rnn", "lstm", "ffnn", "gpt2", "transformer", "bert")
        self.models = [filled(small(family), dtype="float32") for family in families]

    def case(self, random: Random, place: Path) -> Case:
        model = fresh(random.choice(self.models))
        scale = random.choice((0.1, 1, 1, 1, 3, 10, 1e4, 1e20, 1e37))
        most = 60 if model.family in ("rnn", "lstm") else 4 if model.family == "ffnn" else 9
        length = 4 if model.family == "ffnn" else random.randrange(1, most + 1)
        ids = [random.randrange(17) for _ in range(length)]
        target = random.choice((None, random.randrange(17), (1, random.randrange(17))))
        position = random.choice((None, random.randrange(length)))
        neurons = random.random() < 0.2
        (place / "case").write_text(f"{model.family} {scale} {ids} {target} {position} {neurons}")

        def attributed() -> None:
            with np.errstate(all="ignore"):  # NumPy warns of what overflows, and may
                for name, array in model.state.items():
                    model.state[name] = array * np.float32(scale)
                trace = dissect(model, ids)
                found = attribute(trace, target, position, neurons=neurons)
            assert all(math.isfinite(number) for number in (found.value, found.total, found.bound))
            step, cells = trace[found.target.step], found.target.cells
            value = math.fsum(float(step[cell]) * weight for cell, weight in cells)
            assert math.isclose(value, found.value, rel_tol=1e-6, abs_tol=1e-6 * found.scale)
            if found.precise:
                assert found.agrees, f"off by {found.difference}, allowed {found.bound}"
            assert found.to_json()["parts"] or found.value == 0
            repr(found)

        return attributed


class Saving:
    """Models saved after edits and loaded, also while another is saved to the same folder.

    What is loaded is what was saved, to the last bit; of two models one or the other, whole.
    """

    def __init__(self, folder: Path) -> None:
        self.families = [family for family in SMALL if family != "igpt"]
        self.hooked = _Hooked()

    def case(self, random: Random, place: Path) -> Case:
        family = random.choice(self.families)
        model = filled(small(family), seed=random.randrange(9), dtype="float32")
        model.dtype = random.choice(("float16", "bfloat16", "float32", "float64"))
        layout = random.choice(("vesalius", "huggingface"))
        seed = random.random()
        (place / "case").write_text(f"{family} {model.dtype} {layout} {seed}")
        if random.random() < 0.5:
            return lambda: self._saved(Random(seed), model, layout, place)
        return lambda: self._beside(Random(seed), model, place)

    def _saved(self, random: Random, model: Model, layout: str, place: Path) -> None:
        folder = place / "model"
        model.save(folder)
        for _ in range(random.choice((1, 2, 3))):
            model = load_folder(folder)
            with np.errstate(over="ignore"):
                for _ in range(random.choice((0, 1, 2))):
                    _edit_some(random, model)
            finite = all(np.isfinite(array).all() for array in model.state.values())
            model.save(folder, layout if random.random() < 0.5 else "vesalius")
            if finite:
                _same(load_folder(folder), model)

    def _beside(self, random: Random, one: Model, place: Path) -> None:
        folder = place / "model"
        settings = {"heads": 1} if hasattr(one.config, "heads") else {}
        other = filled(one.config.change(**settings), seed=10, dtype="float32")
        waiting = [random.choice((one, other)) for _ in range(random.choice((1, 1, 2, 40)))]
        one.save(folder)
        before = load_folder(folder)
        least, most = sorted(random.randrange(30) for _ in "ab")

        def save() -> None:
            if waiting and random.randrange(most - least + 1) == 0:
                waiting.pop().save(folder)

        try:
            with self.hooked.at_every_open(save):
                found = load_folder(folder)
        except BrokenFile as error:
            if "was written to whenever it was read" in str(error):
                return
            raise AssertionError("half of a model was read") from error
        _same(found, other if _equal(found, other) else before)


def _equal(one: Model, other: Model) -> bool:
    return one.config == other.config and all(
        np.array_equal(array, other.state[name]) for name, array in one.state.items()
    )


def _same(one: Model, other: Model) -> None:
    assert one.config == other.config
    assert one.state.keys() == other.state.keys()
    for name, array in one.state.items():
        np.testing.assert_array_equal(array, other.state[name], name)


class _Hooked:
    """Does something whenever a file is opened to be read; one in a process, for good."""

    def __init__(self) -> None:
        self.do: Callable[[], None] | None = None
        sys.addaudithook(self._audit)

    def _audit(self, event: str, details: tuple[Any, ...]) -> None:
        if event == "open" and self.do is not None and details[1] in ("r", "rb"):
            do, self.do = self.do, None  # opening files is what it does itself
            try:
                do()
            finally:
                self.do = do

    @contextmanager
    def at_every_open(self, do: Callable[[], None]) -> Iterator[None]:
        self.do = do
        try:
            yield
        finally:
            self.do = None


TARGETS = {"engines": Engines, "sampling": Extremes, "attribution": Sums, "saving": Saving}
