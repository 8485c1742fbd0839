"""Objectives of text: the next token (19 to 21), masked tokens (67), the next sentence (59)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy import ndarray as Array

from vesalius.arguments import Progress
from vesalius.data import parts
from vesalius.data.batches import Batch, Batches
from vesalius.data.masking import IGNORED
from vesalius.data.settings import TextData
from vesalius.data.texts import Texts, join_lines
from vesalius.data.tokens import Tokens, tokenised
from vesalius.data.vocabularies import tokenizer_of
from vesalius.errors import (
    EmptyCorpus,
    ImpossibleSetting,
    NotInVocabulary,
    TokenOutOfRange,
    WrongKind,
)
from vesalius.families import family_of
from vesalius.families.config import Config
from vesalius.generation import forward
from vesalius.machine import usable_cache
from vesalius.metrics.predictions import Predictions, Share
from vesalius.model import Model
from vesalius.preparation import Preparation
from vesalius.tasks.language.pairs import MaskedText
from vesalius.tasks.language.windows import Streams, Windows
from vesalius.tasks.objective import BATCH, SEED, HeldOut, Objective, Source
from vesalius.tokenizers import Tokenizer
from vesalius.tokenizers.kinds import END_OF_TEXT
from vesalius.training.settings import Recipe

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from vesalius.tasks.objective import State, Sums


@dataclass(frozen=True, kw_only=True)
class TextObjective(Objective):
    """A text of tokens, in windows."""

    data = TextData
    by_sentence: ClassVar[bool] = False
    """Whether it has to be known where sentences begin."""

    def source(
        self, recipe: Recipe, tokenizer: Tokenizer | None, progress: Progress, read: Any = None
    ) -> Source:
        data: TextData = recipe.data  # type: ignore[assignment]
        train, valid = parts.training_texts(data.corpus, data.words, data.valid, data.split)
        split = parts.kept_texts(data.corpus, data.valid, data.split)
        if data.join_lines:
            train, valid = join_lines(train), join_lines(valid)
            split = split and {**split, "join_lines": True}
        cache = usable_cache()
        tokenizer = tokenizer or tokenizer_of(data, train, valid, cache, progress)
        if recipe.training.sample_every:
            try:
                prompt_ids(tokenizer, recipe.training.prompt)
            except NotInVocabulary as error:
                raise NotInVocabulary(f"[training] prompt: {error}") from error
        tokens, held_out = (
            tokenised(part, tokenizer, cache, self.by_sentence, progress) for part in (train, valid)
        )
        common: dict[str, Any] = {"tokens": tokens, "held_out": held_out, "seed": recipe.seed}
        common["notes"] = parts.notes_on((data.corpus, train), (data.valid or data.corpus, valid))
        return Source(
            {"vocabulary": tokenizer.rows},
            lambda config, batch: self.batches(data, config, tokenizer, {**common, "batch": batch}),
            tokens.digest,
            tokenizer,
            Preparation(held_out=split or None),
        )

    def batches(
        self, data: TextData, config: Config, tokenizer: Tokenizer, common: Mapping[str, Any]
    ) -> Batches:
        raise AssertionError("every objective has its own")

    def window(self, data: TextData, config: Config) -> int:
        """The tokens of a window: the model's context, unless the recipe says otherwise."""
        context = config.context
        window: int = data.window or context or 64
        fixed = family_of(config).window
        if context is not None and (window > context or (fixed and window < context)):
            raise ImpossibleSetting(
                f"[data] window is {window}, but the model's context {context}; "
                f"leave it out to follow"
            )
        if window < self.least_window:
            raise ImpossibleSetting(
                f"{self.name} needs windows of {self.least_window} tokens, got {window}"
            )
        return window


class NextToken(TextObjective):
    """−Σ log p(token), of every token after what stands before it (19 to 21)."""

    writes_text = True

    def batches(
        self, data: TextData, config: Config, tokenizer: Tokenizer, common: Mapping[str, Any]
    ) -> Batches:
        family, window = family_of(config), self.window(data, config)
        if data.carried and family.carries_state:
            return Streams(window=window, **common)
        return Windows(window=window, single=family.window, **common)

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        if "fresh" in batch:
            fresh = batch["fresh"]
            if state is None:
                bare: Any = getattr(network, "module", network)
                before = tuple(bare.initial_state(len(fresh)))
            else:  # with zeros where a row begins anew
                before = tuple(part * ~fresh[None, :, None] for part in state)
            logits, after = network(batch["ids"], before)
            # In the precision that it came in, whatever products were computed in.
            pairs = zip(after, before, strict=True)
            state = tuple(part.detach().to(like.dtype) for part, like in pairs)
        else:
            logits = network(batch["ids"])
        return self.cross_entropy("token", logits, batch["targets"], network.training), state

    def terms(self, batch: Batch) -> dict[str, int]:
        return self.counted("token", self.targets(batch))


@dataclass(frozen=True, kw_only=True)
class MaskedTokens(TextObjective):
    """Masked tokens (67), and whether the second text of a pair follows the first (59)."""

    by_sentence = True
    pairs: bool = True
    without_pairs: MaskedTokens | None = None
    """What is left to evaluate where a corpus has no pairs."""

    def batches(
        self, data: TextData, config: Config, tokenizer: Tokenizer, common: Mapping[str, Any]
    ) -> Batches:
        return MaskedText(
            tokenizer=tokenizer,
            length=self.window(data, config),
            pairs=self.pairs,
            ratio=data.mask_ratio,
            plain=data.plain_masks,
            whole_words=data.whole_words,
            **common,
        )

    def held_out(self, model: Model, corpus: str, progress: Progress) -> HeldOut:
        """A single document has no pairs, but tokens that can be masked."""
        texts, part, tokens = corpus_tokens(model, corpus, True, progress)
        assert model.tokenizer is not None
        context = model.config.longest
        common = (tokens, tokens, model.tokenizer, context, BATCH, SEED)
        served, notes = self, parts.notes_on((corpus, texts))
        try:
            batches = MaskedText(*common, pairs=self.pairs)
        except EmptyCorpus as error:
            if not self.pairs:
                raise
            why = (
                "no sentence pairs, which need two documents of two sentences each; every file is "
                "a document: give a folder of them"
            )
            if self.without_pairs is None:
                raise EmptyCorpus(f"{corpus} has {why}") from error
            served, batches = self.without_pairs, MaskedText(*common, pairs=False)
            notes = (f"{self.without_pairs.title} alone: there are {why}", *notes)
        unknown = int((tokens.ids == batches.marks.get("[UNK]", -1)).sum())
        return HeldOut(served, batches, len(tokens.ids), unknown, part, notes=notes)

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        chosen = batch["targets"] != IGNORED
        out = network(batch["ids"], batch["segments"], batch["real"], chosen)
        sums: Sums = {}
        if out.mlm is not None:
            sums |= self.cross_entropy("mlm", out.mlm, batch["targets"][chosen], network.training)
        if "next" in batch and out.nsp is not None:
            sums |= self.cross_entropy("nsp", out.nsp, batch["next"], network.training)
        return sums, state

    def terms(self, batch: Batch) -> dict[str, int]:
        return self.counted("mlm", self.targets(batch)) | self.counted("nsp", len(batch["ids"]))

    def measured(
        self, model: Model, batches: Iterable[Batch], held_out: HeldOut
    ) -> tuple[dict[str, float], Predictions | None]:
        """The same means without PyTorch."""
        made = forward.running(model, held_out.tokens)
        sums: dict[str, list[float]] = {}
        for batch in batches:
            read, kinds, wanted = (
                [row[real] for row, real in zip(batch[name], batch["real"], strict=True)]
                for name in ("ids", "segments", "targets")
            )
            states = forward.hidden_states(model, read, segments=kinds, made=made)
            asked: dict[str, tuple[Array, Array]] = {}
            if "mlm" in self.losses:
                answers = np.concatenate(wanted)
                chosen = answers != IGNORED
                logits = forward.mlm_logits(model, np.concatenate(states)[chosen])
                asked["mlm"] = logits, answers[chosen]
            if "nsp" in self.losses:
                first = np.stack([row[0] for row in states])
                asked["nsp"] = forward.nsp_logits(model, first), batch["next"]
            for name, (logits, answers) in asked.items():
                found = (*forward.score(logits, answers), len(answers))
                sums[name] = [a + b for a, b in zip(sums.get(name, [0, 0, 0]), found, strict=True)]
        losses = {name: nats / max(1, count) for name, (nats, _, count) in sums.items()}
        right = {f"{name} accuracy": hits / max(1, n) for name, (_, hits, n) in sums.items()}
        return losses | right, None

    def report(self, means: Mapping[str, float], kept: Preparation) -> dict[str, float]:
        found: dict[str, float] = {}
        if "mlm" in self.losses:
            found = {"loss": means["mlm"], "perplexity": perplexity(means["mlm"])}
            found["accuracy"] = Share(means["mlm accuracy"])
        if "nsp" in self.losses:
            found["next_sentence_loss"] = means["nsp"]
            found["next_sentence_accuracy"] = Share(means["nsp accuracy"])
        return found


def perplexity(loss: float) -> float:
    return math.exp(min(700.0, loss))


def corpus_tokens(
    model: Model, corpus: str, by_sentence: bool, progress: Progress, joined: bool = False
) -> tuple[Texts, str, Tokens]:
    """The texts to evaluate on, which part of the corpus they are, and their tokens."""
    if model.tokenizer is None:
        raise WrongKind("the model has no tokenizer, so texts cannot be given to it")
    texts, part = parts.evaluation_texts(corpus, model.preprocessing.held_out)
    if joined:
        texts = join_lines(texts)
    tokens = tokenised(texts, model.tokenizer, usable_cache(), by_sentence, progress)
    vocabulary: int = model.config.vocabulary
    end = model.tokenizer.special.get(END_OF_TEXT, 0)
    # Some masked tokens become others, which may be any.
    largest = model.tokenizer.rows - 1 if by_sentence else max(end, tokens.ids.max(initial=0))
    if largest >= vocabulary:
        raise TokenOutOfRange(
            f"the model's vocabulary has {vocabulary} tokens, but its tokenizer gives "
            f"{largest} on {texts.name}; expected the tokenizer that it was trained with"
        )
    return texts, part, tokens


def prompt_ids(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """The tokens that a sample begins with, unframed: the text is to go on."""
    (ids,) = tokenizer.encode_many([prompt], framed=False)
    return ids


PAIR = 7
"""Tokens of the shortest row of two texts: three marks, and something of each."""
NEXT_TOKEN = NextToken(name="next-token", title="the next token (19 to 21)", losses=("token",))
MLM = MaskedTokens(
    name="mlm",
    title="masked tokens (67)",
    losses=("mlm",),
    settings={"mlm_head": True},
    heads=("mlm_head",),
    least_window=3,
    pairs=False,
)
NSP = MaskedTokens(
    name="nsp",
    title="whether a sentence follows (59)",
    losses=("nsp",),
    settings={"nsp_head": True},
    heads=("pooler", "nsp_head"),
    least_window=PAIR,
)
MLM_NSP = MaskedTokens(
    name="mlm+nsp",
    title="masked tokens, and whether a sentence follows",
    losses=("mlm", "nsp"),
    settings={"mlm_head": True, "nsp_head": True},
    heads=("mlm_head", "pooler", "nsp_head"),
    least_window=PAIR,
    without_pairs=MLM,
)
