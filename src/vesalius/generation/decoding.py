"""The decode loop: prefill of all prompts, then sample and decode token by token, until each ends.

Sequences of any number and length make one batch. Each has random numbers of its own: the others of
its batch change only the last digits of sums, which decide between equally likely tokens at most.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np

from vesalius import arguments
from vesalius.capabilities import context_of, require_served, tokenizer_of
from vesalius.errors import EmptySequence, ImpossibleSetting, NotFinite, SequenceTooLong, WrongKind
from vesalius.families import family_of
from vesalius.generation.engines import engine
from vesalius.generation.engines.sessions import Engine
from vesalius.generation.sampling import Draw, Logits, Sampling
from vesalius.generation.streaming import TextStream
from vesalius.model import Model, ModelLike, loaded
from vesalius.views.shown import short

Prompt = str | Sequence[int]
MOST = 50
"""New tokens of a text, unless ``max_new_tokens`` says otherwise."""


@dataclass(frozen=True, repr=False)
class Generation:
    """What came after a prompt."""

    prompt: Prompt
    text: str
    """The new text; empty where the model has no tokenizer, as for images."""
    ids: list[int]
    """The new tokens."""
    finish: str
    """Why it ended: "length" (``max_new_tokens``), "end" (an end-of-text token) or "stop"."""

    def to_json(self) -> dict[str, Any]:
        """``prompt`` as it was given, text or ids; ``text``, ``ids`` and ``finish`` as above."""
        prompt = self.prompt if isinstance(self.prompt, str) else list(self.prompt)
        return {"prompt": prompt, "text": self.text, "ids": self.ids, "finish": self.finish}

    def __repr__(self) -> str:
        """The new text, or its beginning, and why it ended."""
        given = self.prompt if isinstance(self.prompt, str) else list(self.prompt)
        new = self.text if self.text else self.ids
        many = "1 token" if len(self.ids) == 1 else f"{len(self.ids)} tokens"
        about = f"Generation: {many} after {short(given, 60)}, ended by {self.finish}"
        return f"{about}\n  {short(new, 400)}"


@dataclass
class _Sequence:
    """A sequence in the making."""

    prompt: Prompt
    before: list[int]
    random: np.random.Generator
    stream: TextStream | None
    new: list[int] = field(default_factory=list)
    finish: str = ""


class _Settings(TypedDict, total=False):
    """The settings of ``generate`` that do not decide what it returns."""

    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float
    stop: str | Sequence[str]
    seed: int
    slide: bool
    ignore_end: bool
    dtype: str
    threads: int | None
    on_text: Callable[[int, str], None] | None
    on_draw: Callable[[int, Draw], None] | None


@overload
def generate(
    model: ModelLike,
    prompt: Prompt | None = None,
    max_new_tokens: int | None = None,
    *,
    samples: Literal[1] = 1,
    **settings: Unpack[_Settings],
) -> Generation: ...


@overload
def generate(
    model: ModelLike,
    prompt: Prompt | Sequence[Prompt] | None = None,
    max_new_tokens: int | None = None,
    *,
    samples: int = 1,
    **settings: Unpack[_Settings],
) -> list[Generation]: ...


def generate(
    model: ModelLike,
    prompt: Prompt | Sequence[Prompt] | None = None,
    max_new_tokens: int | None = None,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    stop: str | Sequence[str] = (),
    seed: int = 0,
    samples: int = 1,
    slide: bool = False,
    ignore_end: bool = False,
    dtype: str = "float32",
    threads: int | None = None,
    on_text: Callable[[int, str], None] | None = None,
    on_draw: Callable[[int, Draw], None] | None = None,
) -> Generation | list[Generation]:
    """Continue a text, or token ids: a ``Generation``.

    A list of prompts, or more than one of ``samples``, gives a list: the samples of the first
    prompt, then of the second. ``max_new_tokens`` is 50 by default, or what the context has space
    for; with igpt, the rest of the picture. Temperature 0 is greedy. ``slide`` goes beyond the
    context, with its later half; ``ignore_end`` beyond end-of-text tokens (``Model.ends``).
    ``dtype`` is "float32" or "int8". ``on_text`` is called with text as soon as it is certain,
    ``on_draw`` with each choice, both with the sequence's number first.
    """
    model = loaded(model)
    require_served(model, "generate")
    if not model.config.causal:
        raise WrongKind("this model sees what comes after a token, so that it cannot continue")
    if max_new_tokens is not None:
        max_new_tokens = arguments.whole("max_new_tokens", max_new_tokens, least=1)
    samples = arguments.whole("samples", samples, least=1)
    seed = arguments.whole("seed", seed, least=0)
    arguments.callback("on_text", on_text), arguments.callback("on_draw", on_draw)
    sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
    stops = arguments.texts("stop", stop)
    if "" in stops:
        raise ImpossibleSetting("a stop string has to have a character; got an empty one")
    prompts, several = _prompts(model, prompt)
    if max_new_tokens is None:
        max_new_tokens = _new_tokens(model, max(len(ids) for _, ids in prompts), slide)
    if stops:
        tokenizer_of(model)
    sequences = [
        _Sequence(
            one,
            ids,
            np.random.default_rng([seed, sample]),
            None if model.tokenizer is None else TextStream(model.tokenizer, ids, stops),
        )
        for one, ids in prompts
        for sample in range(samples)
    ]
    made, ends = engine(model, dtype, threads), frozenset[int]() if ignore_end else model.ends
    run = _Run(model, made, sequences, sampling, max_new_tokens, slide, ends, on_text, on_draw)
    run.to_the_end(samples)
    results = [
        Generation(one.prompt, "" if one.stream is None else one.stream.text, one.new, one.finish)
        for one in sequences
    ]
    return results if several or samples > 1 else results[0]


def _prompts(
    model: Model, given: Prompt | Sequence[Prompt] | None
) -> tuple[list[tuple[Prompt, list[int]]], bool]:
    """Prompts with their tokens, and whether a list was given."""
    given = [] if given is None else arguments.plain(given)
    if not isinstance(given, str | Sequence) or isinstance(given, bytes):
        raise arguments.wrong("prompt", "a text, token ids, or a list of prompts", given)
    parts = given if isinstance(given, str) else [arguments.plain(one) for one in given]
    several = parts is not given and any(isinstance(one, str | list | tuple) for one in parts)
    prompts: list[Any] = list(parts) if several else [parts]
    called = [f"prompt {n} of {len(prompts)}" for n in range(1, len(prompts) + 1)]
    names = called if several else ["the prompt"]
    named = zip(prompts, names, strict=True)
    return [(one, _tokens(model, one, name)) for one, name in named], several


def _tokens(model: Model, prompt: Prompt, name: str) -> list[int]:
    if isinstance(prompt, str):
        ids = tokenizer_of(model).encode_prompt(prompt)
    else:
        ids = arguments.ids("prompt", prompt)
    if draws_pictures(model):  # whose first pixel follows the token to start from
        start: int = model.config.vocabulary - 1
        return ids if ids[:1] == [start] else [start, *ids]
    if ids:
        return ids
    if model.start is None:
        raise EmptySequence(
            f"{name} is empty, and the model has no bos_token_id to start from; expected a text, "
            f"or token ids, to continue"
        )
    return [model.start]


def _new_tokens(model: Model, prompt: int, slide: bool) -> int:
    """The default of ``max_new_tokens``: the rest of a picture, or 50.

    Fewer where the context has less space, and may not slide.
    """
    side, context = picture_side(model), context_of(model)
    if side is not None:
        return max(1, side * side - (prompt - 1))
    if context is None or slide or family_of(model.config).window:
        return MOST
    return max(1, min(MOST, context - prompt + 1))


def draws_pictures(model: Model) -> bool:
    """Whether the tokens of a model are pixels."""
    return family_of(model.config).reads == "pixels"


def picture_side(model: Model) -> int | None:
    """The width and height of the pictures that a model draws; None where it draws none."""
    if not draws_pictures(model):
        return None
    kept = model.preprocessing.side
    return kept if isinstance(kept, int) else math.isqrt(context_of(model) or 1)


@dataclass
class _Run:
    """The batch of one call, from prefill to the end."""

    model: Model
    engine: Engine
    sequences: list[_Sequence]
    sampling: Sampling
    most: int
    slide: bool
    ends: frozenset[int]
    on_text: Callable[[int, str], None] | None
    on_draw: Callable[[int, Draw], None] | None

    def __post_init__(self) -> None:
        longest = max(len(sequence.before) for sequence in self.sequences)
        # A window slides by itself, and a carried state has no length.
        self.context = None if family_of(self.model.config).window else context_of(self.model)
        if self.context is not None and not self.slide:
            _require_room(self.context, longest, self.most)
        length = min(longest + self.most - 1, self.context or longest)
        self.session = self.engine.session(len(self.sequences), length)

    def to_the_end(self, samples: int) -> None:
        logits, active = self._prefill(samples), list(range(len(self.sequences)))
        while active:
            for slot, row in zip(active, logits, strict=True):
                self._draw(slot, row)
            active = [slot for slot in active if not self.sequences[slot].finish]
            if active:
                logits = self._step(active)

    def _prefill(self, samples: int) -> Sequence[Logits]:
        """The logits after each prompt, which is read once and copied for further samples."""
        firsts = range(0, len(self.sequences), samples)
        prompts = [self.sequences[slot].before for slot in firsts]
        if self.context:
            prompts = [prompt[-self.context :] for prompt in prompts]
        logits = self.session.prefill(firsts, prompts)
        for slot in range(len(self.sequences)):
            if slot not in firsts:
                self.session.copy(slot - 1, slot)
        return [logits[slot // samples] for slot in range(len(self.sequences))]

    def _draw(self, slot: int, logits: Logits) -> None:
        sequence = self.sequences[slot]
        if math.isnan(logits.max()):  # as it is with a single NaN
            raise NotFinite("the model's logits are NaN; look for NaN in its weights")
        penalised = self.sampling.repetition_penalty != 1
        before = np.array(sequence.before + sequence.new if penalised else [], np.int64)
        kept = logits if self.on_draw is None else logits.copy()
        draw = Draw(kept, self.sampling, before, sequence.random.random())
        if self.on_draw is not None:
            self.on_draw(slot, draw)
        if draw.token in self.ends:
            sequence.finish = "end"
        else:
            sequence.new.append(draw.token)
            self._tell(slot, "" if sequence.stream is None else sequence.stream.add(draw.token))
        if sequence.stream is not None and sequence.stream.stopped:
            sequence.finish = "stop"
        elif len(sequence.new) == self.most:
            sequence.finish = "length"
        if sequence.finish and sequence.stream is not None:
            self._tell(slot, sequence.stream.end())

    def _tell(self, slot: int, text: str) -> None:
        if text and self.on_text is not None:
            self.on_text(slot, text)

    def _step(self, active: list[int]) -> Sequence[Logits]:
        """Decode: the logits after the tokens just drawn.

        A full context begins again with its later half, which prefill has to read anew, because
        positions of a transformer are absolute.
        """
        for slot in active:
            if self.session.full(slot):
                assert self.context is not None
                sequence = self.sequences[slot]
                kept = (sequence.before + sequence.new)[-max(1, self.context // 2) :]
                self.session.prefill([slot], [kept[:-1]])
        return [*self.session.step(active, [self.sequences[slot].new[-1] for slot in active])]


def _require_room(context: int, prompt: int, most: int) -> None:
    """Refuse more tokens than fit; the last new one need not be read."""
    if prompt > context:
        raise SequenceTooLong(
            f"the prompt has {prompt} tokens, the model's context {context}; shorten it, or let "
            f"the context slide"
        )
    if prompt + most - 1 > context:
        raise SequenceTooLong(
            f"{prompt} tokens of the prompt and {most} new ones are more than the model's context "
            f"of {context}; ask for {context - prompt + 1} at most, or let the context slide"
        )
