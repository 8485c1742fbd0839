"""A trace: the steps of one forward pass by name, what they say, and how they are kept in files.

It can be asked for the likeliest words or classes, for what states of any depth stand for, and for
what each step is made of.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius import equations as eq
from vesalius.capabilities import predicts_next
from vesalius.checkpoints import files, plain
from vesalius.data.inputs import label_names
from vesalius.equations import Steps
from vesalius.equations.parameters import Array
from vesalius.errors import BrokenFile, UnknownStep, WrongKind
from vesalius.families import family_of
from vesalius.model import Model, ModelLike, loaded
from vesalius.traces.edits.sending import require_sendable
from vesalius.traces.graph import Graph
from vesalius.traces.steps import ATTENTION, Summary, overview, summary_of
from vesalius.views import notebooks
from vesalius.views.shown import Part, Shown, Table, counted, noted

SHOWN = 12
"""Names and tokens that the repr of a trace tells."""
MOST_LAYERS = 10_000
"""As many as no model has."""
ROWS, LONG = 200, 400
"""Steps of a table in a notebook, and letters of a text above it."""


class Trace(Mapping[str, Array], Shown):
    """The steps of a forward pass; ``trace["A[3]"]`` is a value by its name."""

    def __init__(
        self,
        model: Model | None,
        ids: list[int],
        steps: Steps,
        family: str,
        *,
        tokens: Sequence[str] | None = None,
        classes: Sequence[str] = (),
        prepared: str = "",
        hint: str = "",
        layers: int = 0,
        given: Array | None = None,
        operands: Mapping[str, Sequence[str]] | None = None,
        segments: Sequence[int] | None = None,
        edits: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.ids, self.steps, self.family = model, ids, steps, family
        self.edits = dict(edits or {})
        """What was edited on the way, as ``dissect`` takes it; empty of a trace from a file."""
        self.graph = Graph(steps, model, layers, given, operands, segments)
        """What each step is made of, worked out when it is asked for."""
        self.class_names = list(classes)
        """What the classes are called, if the model tells any apart."""
        self.prepared = prepared
        """What was done to an image or series before the model read it."""
        self.hint = hint
        """What may be wrong with a text."""
        self._tokens = tokens

    def with_steps(self, steps: Steps) -> "Trace":
        """A trace of the same input, whose steps are others."""
        graph = self.graph
        return Trace(
            self.model,
            self.ids,
            steps,
            self.family,
            tokens=self._tokens,
            classes=self.class_names,
            prepared=self.prepared,
            hint=self.hint,
            layers=graph.layers,
            given=graph.given,
            segments=graph.segments,
            edits=self.edits,
        )

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all, which an edit by a function without a name makes impossible."""
        require_sendable(self.edits)
        return self.__dict__

    def __getitem__(self, name: str) -> Array:
        value: Array = self.steps[name]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.steps.names())

    def __len__(self) -> int:
        return len(self.steps.names())

    __eq__, __hash__ = object.__eq__, object.__hash__  # arrays have no one truth

    def __repr__(self) -> str:
        names = self.names()
        few = names if len(names) <= SHOWN else [*names[: SHOWN - 3], "…", *names[-2:]]
        lines = [
            f"Trace of {self.family}: {counted(len(names), 'step')}",
            f"  steps: {' '.join(few)}",
        ]
        if self.ids:
            tokens = self.tokens()
            more = " …" if len(tokens) > SHOWN else ""
            lines.append(f"  {len(tokens)} tokens: {' '.join(map(repr, tokens[:SHOWN]))}{more}")
        if self.prepared:
            lines.append(f"  input: {self.prepared}")
        lines += [f"  {line}" for line in noted(self.hint)]
        if best := self.best(3):
            words = (f"{name!r} {p:.4f}" for _, name, p in best)
            what = "classes" if self.class_names else "likeliest"
            lines.append(f"  {what}: {', '.join(words)}")
        return "\n".join(lines)

    def view(self) -> Iterator[Part]:
        yield from self.told(everything=False)
        yield from self.outcome(10)

    def _repr_html_(self) -> str:
        size = counted(len(self.steps), "step")
        bits = zip(self.tokens(), self.surprisal(), strict=True)
        heads = [
            notebooks.Head(step.name, step.place["layer"], step.place["head"], step.value)
            for step in self.steps
            if step.symbol in ATTENTION and "head" in step.place
        ]
        given = list(bits) if self.ids else self.input()
        parts = (*self.told(everything=False, most=ROWS), *self.outcome(10))
        top = (self.family, size)
        return notebooks.of_trace(top, given, self._asked(), heads, parts, self._image())

    def _image(self) -> tuple[Array, int] | None:
        """The picture that was read as the model reads it, and how wide its patches are."""
        given = self.graph.given
        if self.model is None or given is None or family_of(self.model.config).reads != "images":
            return None
        return given, int(self.model.config.symbols()["P"])

    def _asked(self) -> tuple[str, list[tuple[int, str, float]]]:
        """The likeliest classes or words, and where: masked models are asked at the mask."""
        if self.class_names:
            return notebooks.CLASSES, self.best(10)
        tokens = self.tokens() if "Y_hat" in self else []
        if "[MASK]" not in tokens or self.surprisal()[-1] is not None:
            return "likeliest", self.best(10)
        return "likeliest at [MASK]", self.likeliest(10, tokens.index("[MASK]"))

    def told(self, everything: bool, most: int | None = None) -> Iterator[Part]:
        """What was read, and the steps; those inside heads if ``everything`` is wanted.

        Of a recurrent model with more than ``most`` of them, those of the last token.
        """
        said = self.input()
        yield f"{self.family}: {said if most is None or len(said) <= LONG else f'…{said[-LONG:]}'}"
        yield from noted(self.hint)
        steps = [step for step in self.steps if everything or "head" not in step.place]
        hidden = len(self.steps) - len(steps)
        if most is not None and len(steps) > most:
            last = max((step.place.get("time", 0) for step in steps), default=0)
            kept = [step for step in steps if step.place.get("time", last) == last]
            earlier, steps = len(steps) - len(kept), kept
        else:
            earlier = 0
        if steps:
            yield from overview([(step, summary_of(step)) for step in steps])
        if earlier:
            yield f"{counted(earlier, 'step')} of earlier tokens left out; trace['h[1,1]'] is one"
        if hidden:
            many = "1 step inside heads is" if hidden == 1 else f"{hidden} steps inside heads are"
            yield f"{many} left out; --only 'mu[1]' shows some"

    def outcome(self, top: int) -> Iterator[Part]:
        """The likeliest classes or words, or the tags, if the model tells any."""
        if tags := self.tags():
            told = [(token, tag, f"{p:.4f}") for token, tag, p in tags]
            yield Table(("token", "tag", "probability"), told, right=(2,))
        if best := self.best(top):
            word = str if self.class_names else repr
            rows = [(str(i), word(name) if name else "", f"{p:.4f}") for i, name, p in best]
            heads = ("id", "class" if self.class_names else "likeliest", "probability")
            yield Table(heads, rows, right=(0, 2))

    def input(self) -> str:
        """What was read: tokens, or what was done to an image or series."""
        return self.prepared or " ".join(self.tokens())

    def names(self) -> list[str]:
        return self.steps.names()

    def operands(self, name: str) -> list[str]:
        """What a step is made of: the names of other steps, and of arrays of the parameters."""
        return self.graph.operands(name)

    def summaries(self) -> list[Summary]:
        """Every step with its shape, norm and range."""
        return [summary_of(step) for step in self.steps]

    def tokens(self) -> list[str]:
        """The input's tokens as text, or as numbers where there is no tokenizer."""
        if self._tokens is not None:
            return list(self._tokens)
        if self.model is None or self.model.tokenizer is None:
            return [str(i) for i in self.ids]
        return [self.model.tokenizer.piece(i) for i in self.ids]

    def surprisal(self) -> list[float | None]:
        """The bits of each token, given those before it; of models that predict the next one."""
        following = self.model is not None and predicts_next(self.model)
        if "Y_hat" not in self or not following:
            return [None] * len(self.tokens())
        odds = self["Y_hat"]
        with np.errstate(divide="ignore"):
            return [None, *(-float(np.log2(odds[id, i])) for i, id in enumerate(self.ids[1:]))]

    def likeliest(self, count: int = 10, position: int = -1) -> list[tuple[int, str, float]]:
        """The likeliest words after a token (masked models: at it), the last by default."""
        count = arguments.whole("count", count, least=0)
        odds = self._distribution()
        n = odds.shape[1]
        position = arguments.whole("position", position, least=-n, below=n)
        return self._ranked(odds[:, position], count)

    def classes(self, count: int | None = None) -> list[tuple[int, str, float]]:
        """The classes of the input: number, name and probability, the likeliest first."""
        if not self.class_names:
            raise WrongKind(f"this {self.family} tells no classes apart; it has no head for them")
        if "z" not in self:
            raise UnknownStep("the logits of the classes were not recorded; record z too")
        count = None if count is None else arguments.whole("count", count, least=0)
        odds = eq.softmax(self["z"].astype(np.float64))
        best = np.argsort(-odds, kind="stable")[:count]
        return [(int(i), self.class_names[i], float(odds[i])) for i in best]

    def tags(self) -> list[tuple[str, str, float]]:
        """Every token with its likeliest tag and the tag's probability; none of other models."""
        if self.labelled != "tokens" or self.model is None or "z" not in self:
            return []
        odds = eq.softmax(self["z"].astype(np.float64))
        names, likeliest = label_names(self.model), odds.argmax(axis=0)
        told = zip(self.tokens(), likeliest, odds.max(axis=0), strict=True)
        return [(token, names[row], float(p)) for token, row, p in told]

    def best(self, count: int) -> list[tuple[int, str, float]]:
        """The likeliest classes or words, whichever the model tells; none where it tells none."""
        if self.tells_labels and not self.class_names:
            return []
        try:
            return self.classes(count) if self.class_names else self.likeliest(count)
        except UnknownStep:  # no head, or not recorded
            return []

    def _distribution(self) -> Array:
        for name in ("Y_hat", "y_hat"):
            if name in self.names():
                value = self[name]
                return value if value.ndim == 2 else value[:, None]
        raise UnknownStep("no distribution over words was recorded; record Y_hat too")

    def _ranked(self, y_hat: Array, count: int) -> list[tuple[int, str, float]]:
        best = np.argsort(-y_hat, kind="stable")[:count]
        tokenizer = self.model.tokenizer if self.model else None
        return [
            (int(i), tokenizer.piece(int(i)) if tokenizer else "", float(y_hat[i])) for i in best
        ]

    def to_json(self, top: int = 10) -> dict[str, Any]:
        """What was read, a summary of every step, and the likeliest words or classes.

        Values are left to ``save``, which writes them without rounding.
        """
        found: dict[str, Any] = {
            "family": self.family,
            "ids": self.ids,
            "tokens": self.tokens(),
            "steps": [summary.to_json() for summary in self.summaries()],
            "likeliest": [],
        }
        if self.class_names:
            keys: tuple[str, ...] = ("number", "name", "probability")
            found["classes"] = [dict(zip(keys, one, strict=True)) for one in self.best(top)]
        else:
            keys = ("id", "token", "probability")
            found["likeliest"] = [dict(zip(keys, one, strict=True)) for one in self.best(top)]
        if tags := self.tags():
            keys = ("token", "tag", "probability")
            found["tags"] = [dict(zip(keys, one, strict=True)) for one in tags]
        if self.prepared:
            found["prepared"] = self.prepared
        if self.hint:
            found["hint"] = self.hint
        return found

    def read_out(self, layer: int | str) -> Array:
        """The logit lens: distributions of words or classes, read from the states after ``layer``.

        The states go through what follows the last layer in this model: the final normalisation of
        variant 2, BERT's MLM head, the output embedding, a head of classes. ``"C[3]"`` reads
        between attention and feedforward network. Models that restore values give values.
        """
        outputs = self.read_logits(layer)
        return eq.softmax(outputs) if self.tells_odds else outputs

    def read_logits(self, layer: int | str) -> Array:
        """What ``read_out`` takes the softmax of, where it takes one."""
        if self.model is None:
            raise WrongKind(
                "a trace read from a file has no model to read out with; say which made it: "
                "read_trace(file, model=...)"
            )
        config = self.model.config
        read = family_of(config).read_out
        if read is None:
            raise WrongKind(f"{self.family} has no states to read words from at every layer")
        states = self.states(layer)
        level = (self["mu_r"], self["sigma_r"]) if family_of(config).by_channel else None
        logits: Array = read(self.model.parameters, states, config.symbols(), level or self.real())
        return logits

    def states(self, layer: int | str) -> Array:
        """The states after a layer, by its number or their name, as in ``"C[3]"``.

        Those of recurrent models, ``h[2,1]`` to ``h[2,n]``, stand side by side; before the first
        layer they are the embeddings.
        """
        known = self.steps.passed
        if isinstance(layer, str):
            name = layer
        elif "H[0]" in known:
            name = f"H[{arguments.whole('layer', layer)}]"
        else:
            name = f"h[{arguments.whole('layer', layer)}]" if layer != 0 else "X"
        start = name.removesuffix("]") + ","
        columns = [step for step in known if step.startswith(start)] if name[0] == "h" else []
        if columns:
            return np.stack([self[step] for step in columns], axis=1)
        return self[name]

    def real(self) -> Array | None:
        """Of a series: which columns are no padding. None where there can be no padding."""
        family = None if self.model is None else family_of(self.model.config)
        if family is None or family.reads != "series" or family.by_channel:
            return None
        attended: Array = np.isfinite(self["S"][0])
        return attended

    @property
    def tells_labels(self) -> bool:
        """Whether a head labels the whole input: then its logits z are what the model is for."""
        config = None if self.model is None else self.model.config
        head = config is not None and bool(family_of(config).classes(config))
        return "z" in self.steps.passed and (bool(self.class_names) or head)

    @property
    def tells_odds(self) -> bool:
        """Whether what the model gives are words, classes or tags, which have probabilities."""
        if self.tells_labels:
            return bool(self.class_names)
        words = "Y_hat" in self.steps.passed or "y_hat" in self.steps.passed
        return words or bool(self.class_names) or self.labelled == "tokens"

    @property
    def labelled(self) -> str:
        """What a head of BERT labels: the sequence, its tokens or a span; empty of others."""
        symbols = {} if self.model is None else self.model.config.symbols()
        return symbols.get("labelled", "") if symbols.get("labels") else ""

    def save(self, file: str | Path) -> None:
        """Write all steps to a safetensors file, and what they are to a JSON file beside it."""
        file = Path(file)
        if file.suffix != ".safetensors":
            raise WrongKind(
                f"expected a file that ends in .safetensors, got {str(file)!r}; for .npz, "
                f"numpy.savez(file, **trace) writes the values alone"
            )
        files.write(file, {step.name: step.value for step in self.steps})
        description = {
            "family": self.family,
            "ids": self.ids,
            "tokens": self.tokens(),
            "classes": self.class_names,
            "prepared": self.prepared,
            "hint": self.hint,
            "layers": self.graph.layers,
            "given": None if self.graph.given is None else self.graph.given.tolist(),
            "segments": self.graph.segments,
            "steps": [
                {
                    **summary.to_json(),
                    "place": step.place,
                    "operands": self._operands_if_known(step.name),
                }
                for summary, step in zip(self.summaries(), self.steps, strict=True)
            ],
        }
        text = json.dumps(description, ensure_ascii=False, indent=1)
        with plain.replacing(_beside(file)) as place:
            place.write_text(text, encoding="utf-8")

    def _operands_if_known(self, name: str) -> list[str]:
        """The operands, or none where a step that names them was not recorded."""
        try:
            return self.operands(name)
        except UnknownStep:
            return []


def _beside(file: Path) -> Path:
    """Where the description of a saved trace stands."""
    return file.parent / f"{file.name}.json"


def _check(description: Mapping[str, Any]) -> None:
    """Refuse what ``Trace.save`` does not write, before anything is made of it."""

    def all_of(kind: type, values: object, what: str) -> None:
        if not isinstance(values, list) or not all(type(value) is kind for value in values):
            raise ValueError(f"expected a list of {kind.__name__} as {what}")

    ids, tokens = description["ids"], description.get("tokens") or []
    segments, layers = description.get("segments"), description.get("layers") or 0
    all_of(int, ids, "ids")
    all_of(str, tokens, "tokens")
    all_of(str, description.get("classes") or [], "classes")
    if ids and tokens and len(ids) != len(tokens):
        raise ValueError(f"{len(ids)} ids and {len(tokens)} tokens; expected as many")
    if segments is not None:
        all_of(int, segments, "segments")
    if segments is not None and (len(segments) != len(ids) or min(segments, default=0) < 0):
        raise ValueError("expected a segment for every id")
    if type(layers) is not int or not 0 <= layers < MOST_LAYERS:
        raise ValueError(f"expected fewer than {MOST_LAYERS} layers")
    given = description.get("given")
    if given is not None and np.asarray(given).dtype.kind not in "iuf":
        raise ValueError("expected numbers as given")
    all_of(dict, description["steps"], "steps")
    for entry in description["steps"]:
        all_of(int, [*entry["place"].values()], "place")
        all_of(str, entry.get("operands") or [], "operands")
        if min(entry["place"].values(), default=0) < 0:
            raise ValueError("expected places that are not negative")


def require_trace(value: object) -> None:
    if not isinstance(value, Trace):
        raise arguments.wrong("trace", "a trace, as vs.dissect(model, text) gives it", value)


def read_trace(file: str | Path, model: ModelLike | None = None) -> Trace:
    """A trace that was saved; with the ``model`` that made it, its numbers can be unfolded."""
    file = Path(file)
    if missing := [str(part) for part in (file, _beside(file)) if not os.path.exists(part)]:
        raise BrokenFile(
            f"there is no {' and no '.join(missing)}; a trace is two files, "
            f"as Trace.save and 'vesalius dissect --save' write them"
        )
    description, arrays = plain.read_json(_beside(file)), files.read(file).arrays
    steps = Steps()
    try:
        _check(description)
        said = description["steps"]
        for entry in said:
            if entry["name"] not in arrays:
                raise BrokenFile(f"{file} lacks the step {entry['name']!r} that its JSON names")
            equation = eq.find(entry["equation"])
            if entry["symbol"] not in equation.gives or equation.name != entry["equation"]:
                raise BrokenFile(
                    f"{_beside(file)} says that {entry['name']} comes from {entry['equation']!r}, "
                    f"which does not give it"
                )
            steps.append(eq.Step(entry["symbol"], entry["place"], equation, arrays[entry["name"]]))
            if steps[-1].name != entry["name"]:
                raise BrokenFile(
                    f"{_beside(file)} calls a step {entry['name']!r} whose symbol and place are "
                    f"{entry['symbol']!r} and {entry['place']!r}"
                )
        steps.passed = dict.fromkeys(steps.names())
        about = {key: description.get(key) for key in ("tokens", "classes", "prepared", "hint")}
        given = description.get("given")
        return Trace(
            None if model is None else loaded(model),
            [index(i) for i in description["ids"]],
            steps,
            str(description["family"]),
            tokens=[str(token) for token in about["tokens"] or ()],
            classes=[str(name) for name in about["classes"] or ()],
            prepared=str(about["prepared"] or ""),
            hint=str(about["hint"] or ""),
            layers=index(description.get("layers") or 0),
            given=None if given is None else np.asarray(given),
            operands={e["name"]: list(map(str, e.get("operands") or ())) for e in said},
            segments=description.get("segments"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenFile(f"{_beside(file)} does not describe a trace: {error!r}") from error
