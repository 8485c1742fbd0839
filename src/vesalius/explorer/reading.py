"""What a run is of: a text or two, token ids, a file or an example, with masks.

Whatever was asked for becomes what ``dissect`` takes, a key that names it, and how Python writes
it. A path is never among what may be asked for.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.data.examples import pixel_tokens, shelf
from vesalius.data.inputs import Input, read_input, read_pixels, reads_arrays
from vesalius.equations.parameters import Array
from vesalius.errors import SequenceTooLong, TokenOutOfRange, WrongKind, WrongLength
from vesalius.explorer.uploads import Uploads
from vesalius.families import family_of
from vesalius.model import Model
from vesalius.specimens import FOLDER
from vesalius.tasks.language.filling import MASK
from vesalius.tokenizers import Encoded
from vesalius.traces import dissection


@dataclass(frozen=True)
class Asked:
    """A run's input as a page asks for it: one of text, ids, upload and example."""

    text: str | None = None
    second: str | None = None
    """The other text of a pair."""
    ids: Sequence[int] | None = None
    upload: str | None = None
    example: int | None = None
    index: int = 0
    """Which of several series or pictures in a file."""
    invert: bool = False
    masks: tuple[int, ...] = ()
    """Places of tokens that are hidden from the model."""
    given: int | None = None
    """Pixels that a model is given of a picture that it goes on with; half of it by default."""


@dataclass(frozen=True, eq=False)
class What:
    """What is read."""

    given: Any
    """As ``dissect`` takes it."""
    python: str
    """As Python writes it."""
    command: str = ""
    """As the command line takes it; empty where it does not."""
    second: str = ""
    """The second text that it takes."""
    hidden: Mapping[int, int] = field(default_factory=dict)
    """The tokens behind masks, by their places."""
    masks: tuple[int, ...] = ()
    label: str | None = None
    source: str = ""
    of: int = 1
    """How many the file holds."""
    whole: Sequence[int] = ()
    """All pixels of a picture of which the model is given some."""
    prepared: str = ""
    hint: str = ""
    times: tuple[str, ...] = ()
    """When the steps of a series along time were, and those that are forecast."""
    follows: Array | None = None
    """What such a series went on to be, in its own units."""
    edit: Mapping[str, Callable[[Array], Array]] | None = None

    @property
    def ids(self) -> list[int]:
        """The tokens that are read; none of arrays."""
        if isinstance(self.given, Input):
            return []
        return list(self.given.ids if isinstance(self.given, Encoded) else self.given)

    @property
    def key(self) -> str:
        """The same for the same numbers, and of files and examples for the same source."""
        given, told = self.given, hashlib.sha256()
        if isinstance(given, Input):
            told.update(np.ascontiguousarray(given.values).tobytes())
            told.update(b"" if given.real is None else given.real.tobytes())
        elif isinstance(given, Encoded):
            told.update(json.dumps([given.ids, given.segments]).encode())
        else:
            told.update(json.dumps(list(given)).encode())
        told.update(json.dumps([self.masks, self.source, self.of, list(self.whole)]).encode())
        return told.hexdigest()


STEPS = 2000
"""Tokens of a recurrent model's text: its run has steps for each, and the page lists all."""


def limit_of(model: Model) -> int | None:
    """The longest text that the page shows a run of: the model's own limit, or STEPS."""
    return model.config.symbols().get("n_max", STEPS if _is_recurrent(model) else None)


def _is_recurrent(model: Model) -> bool:
    family = family_of(model.config)
    return family.reads == "text" and not family.window and "n_max" not in model.config.symbols()


def _shown(model: Model, found: What) -> What:
    """Refuse a text with more steps than the page can list; other limits are the model's to say."""
    if _is_recurrent(model) and len(found.ids) > STEPS:
        raise SequenceTooLong(
            f"the text has {len(found.ids):,} tokens, and the page shows runs of {model.family} "
            f"with up to {STEPS:,}, since each token has steps of its own; shorten it"
        )
    return found


def what(model: Model, asked: Asked, uploads: Uploads) -> What:
    """What is meant, ready to be run."""
    sources = (asked.text, asked.ids, asked.upload, asked.example)
    if sum(one is not None for one in sources) != 1:
        raise WrongLength("a run is of a text, of ids, of an upload or of an example; name one")
    reads = family_of(model.config).reads
    if asked.ids is not None and not reads_arrays(model):
        ids = arguments.ids("ids", asked.ids)
        command = _spaced(ids) if model.tokenizer is None else ""
        return _shown(model, _hidden(model, What(ids, str(list(ids)), command), asked.masks))
    if asked.text is not None and reads == "text":
        return _shown(model, _text(model, asked))
    if reads == "text" or asked.text is not None or asked.ids is not None:
        told = "text, not files" if reads == "text" else f"{reads}: an example or a file"
        raise WrongKind(f"this {model.family} reads {told}")
    return _pixels(model, asked, uploads) if reads == "pixels" else _array(model, asked, uploads)


def _spaced(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))


# Texts -------------------------------------------------------------------------


def _text(model: Model, asked: Asked) -> What:
    text, tokenizer = arguments.text("text", asked.text), model.tokenizer
    if tokenizer is None:
        raise WrongKind("this model has no tokenizer; give token ids in place of text")
    if not asked.second:
        encoded = dissection.encoded(model, text)
        texts: tuple[str, ...] = (text,)
    else:
        if model.config.symbols().get("segments", 1) < 2:
            raise WrongKind(f"a pair of texts is for bert; {model.family} reads one")
        encoded, texts = tokenizer.encode_pair(text, asked.second), (text, asked.second)
    alone = len(texts) == 1
    plain = alone and not any(encoded.segments)
    found = _hidden(model, What(list(encoded.ids) if plain else encoded, ""), asked.masks)
    texts = _with_masks(texts, encoded, found.masks)
    again = tokenizer.encode(texts[0]) if alone else tokenizer.encode_pair(*texts).ids
    if list(again) != found.ids:  # a mask can split what it stands beside into other tokens
        return found
    python = ", ".join(json.dumps(one, ensure_ascii=False) for one in texts)
    found = replace(found, python=python if alone else f"({python})", command=texts[0])
    return found if alone else replace(found, second=texts[1])


def _with_masks(texts: tuple[str, ...], encoded: Encoded, masks: Sequence[int]) -> tuple[str, ...]:
    """The texts with [MASK] written where tokens are masked."""
    found = list(texts)
    for place in sorted(masks, reverse=True):
        start, end = encoded.offsets[place]
        which = encoded.segments[place] if len(texts) > 1 else 0
        found[which] = found[which][:start] + MASK + found[which][end:]
    return tuple(found)


def _hidden(model: Model, found: What, masks: Sequence[int]) -> What:
    """The same with some tokens hidden."""
    if not masks:
        return found
    tokenizer = model.tokenizer
    mask = None if tokenizer is None else tokenizer.special.get(MASK)
    if tokenizer is None or mask is None or not maskable(model):
        raise WrongKind(f"this {model.family} restores no masked tokens")
    ids = found.ids
    hidden: dict[int, int] = {}
    for place in sorted(set(masks)):
        _require_place(place, len(ids))
        if ids[place] in tokenizer.special.values() and ids[place] != mask:
            name = tokenizer.piece(ids[place])
            raise TokenOutOfRange(f"token {place} is {name}, which is no word that can be masked")
        if ids[place] != mask:
            hidden[place], ids[place] = ids[place], mask
    given = replace(found.given, ids=ids) if isinstance(found.given, Encoded) else ids
    found = replace(found, hidden=hidden, masks=tuple(hidden))
    return replace(found, given=given, python=str(ids), command="")


def _require_place(place: int, n: int) -> None:
    if not 0 <= place < n:
        raise TokenOutOfRange(f"there are {n} tokens, 0 to {n - 1}, to be masked; got {place}")


def maskable(model: Model) -> bool:
    """Whether a model restores what is masked."""
    symbols = model.config.symbols()
    reads = family_of(model.config).reads
    if reads == "pixels":
        return not model.config.causal
    wanted = {"text": "mlm_head", "images": "masked_patch_head", "series": "series"}[reads]
    return bool(symbols.get(wanted))


# Pictures and series -----------------------------------------------------------


def _array(model: Model, asked: Asked, uploads: Uploads) -> What:
    if asked.upload is not None:
        several = uploads.read(model, asked.upload, asked.invert)
        if not 0 <= asked.index < len(several):
            raise WrongLength(f"the file holds 0 to {len(several) - 1}, got {asked.index}")
        one, name = several[asked.index], uploads[asked.upload].name
        more = f", index={asked.index}" if len(several) > 1 else ""
        more += ", invert=True" if asked.invert else ""
        python = json.dumps(name, ensure_ascii=False) + more
        found = What(one, python, "" if more else name, of=len(several))
        found = replace(found, label=one.label, source=name)
    else:
        held = shelf(model)[arguments.whole("example", asked.example, least=0)]
        one = read_input(model, held.values, invert=asked.invert)
        told = _example(model, held.number)
        told += ", invert=True" if asked.invert else ""
        found = What(
            one, told, label=held.label, source=f"example {held.number} of {shelf(model).corpus}"
        )
        one = replace(one, times=held.times)
        found = replace(found, follows=held.follows)
    found = replace(found, prepared=one.prepared, hint=one.hint, times=one.times)
    return _covered(model, found, asked.masks)


def _example(model: Model, number: int) -> str:
    assert model.folder is not None, "examples are for models of a folder"
    name = model.folder.name if model.folder.parent == FOLDER else str(model.folder)
    return f"vs.example({json.dumps(name, ensure_ascii=False)}, {number})"


def _covered(model: Model, found: What, masks: Sequence[int]) -> What:
    """Masked patches become the mask token, masked time steps zero."""
    if not masks:
        return found
    if not maskable(model):
        raise WrongKind(f"this {model.family} has no head that restores what is masked")
    series = family_of(model.config).reads == "series"
    places = sorted(set(masks))
    n = found.given.values.shape[1] if series else model.config.symbols()["n"]
    for place in places:
        _require_place(place, n)
    if series:
        values = found.given.values.copy()
        values[:, places] = 0
        return replace(found, given=replace(found.given, values=values), masks=tuple(places))
    if 0 in places:
        raise TokenOutOfRange("token 0 is the class token, which is no patch")
    patches = np.array(places) - 1
    token: Any = model.parameters.x_mask  # type: ignore[union-attr]

    def cover(X: Array) -> Array:
        covered = X.copy()
        covered[:, patches] = token[:, None]
        return covered

    return replace(found, masks=tuple(places), edit={"X_0": cover})


def _pixels(model: Model, asked: Asked, uploads: Uploads) -> What:
    if asked.upload is not None:
        (one,) = uploads.read(model, asked.upload, asked.invert)
        source, label = uploads[asked.upload].name, None
    else:
        held = shelf(model)[arguments.whole("example", asked.example, least=0)]
        one = read_pixels(model, held.values, asked.invert)
        source, label = f"example {held.number} of {shelf(model).corpus}", held.label
    ids = pixel_tokens(model, one.values)
    python = "" if asked.example is None else _example(model, asked.example)
    whole = [int(i) for i in one.values]
    found = What(ids, python, label=label, source=source, whole=whole)
    found = replace(found, prepared=one.prepared)
    if maskable(model):
        levels: int = model.config.vocabulary - 1
        for place in asked.masks:
            _require_place(place, len(ids))
        hidden = {place: ids[place] for place in sorted(set(asked.masks))}
        ids = [levels if place in hidden else i for place, i in enumerate(ids)]
        return replace(found, given=ids, hidden=hidden, masks=tuple(hidden), python=str(ids))
    most = len(ids) - 1
    across = round(len(whole) ** 0.5)
    count = (most + 1 + across) // 2 if asked.given is None else asked.given  # amid a row
    if not 0 <= count <= most:
        raise WrongLength(f"of this picture 0 to {most} pixels can be given, got {count}")
    some = ids[: count + 1]
    told = f"{python}[:{count + 1}]" if python else str(some)
    return replace(found, given=some, python=told, command=_spaced(some))
