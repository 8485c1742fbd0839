"""How much longer the parts of a tokenizer.json can make a text, read before the library runs them.

Four lines that replace a letter by a thousand make a word larger than any memory. A bound is taken
from what each part says, at its worst; those of one chain multiply.
"""

import base64
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from vesalius.errors import BrokenFile
from vesalius.views.shown import short

MOST = 10_000
"""Times that a chain may lengthen a text at worst. ALBERT's, the longest of the well-known ones,
reaches some 6,000: each of its parts alone could meet the one character that it expands most."""
FORMS = {"NFC": 3, "NFD": 3, "NFKC": 11, "NFKD": 11, "Lowercase": 2, "BertNormalizer": 6}
"""Unicode's worst, in bytes; of BERT's, spaces around each Chinese character and accents apart."""
FORMS |= {"ByteLevel": 3, "Metaspace": 5}
"""A byte is spelled in two, a blank in up to four; and a piece may begin with one more."""
CHAINS = ("normalizers", "pretokenizers", "decoders", "processors")
STEPS = (("normalizer", "pre_tokenizer", "model", "post_processor"), ("decoder",))
"""What a text goes through, and what tokens go through."""


def require_bounded(file: Path, said: Any) -> None:
    """Refuse a tokenizer that could make a text, or the tokens of one, too long."""
    for steps in STEPS:
        parts = [part for step in steps for part in _parts(said.get(step))]
        factors = [_factor(part) for part in parts]
        if (total := prod(factors)) > MOST:
            largest = max(range(len(parts)), key=lambda i: factors[i])
            times = f"{total:,}" if total < 10**9 else f"10^{len(str(total)) - 1}"
            raise BrokenFile(
                f"{file} could make a text {times} times as long, {factors[largest]:,} times by "
                f"{_named(parts[largest])}; expected {MOST:,} times at most, at worst"
            )


def _parts(said: Any) -> Iterator[dict[str, Any]]:
    """The parts of a chain, those of chains in it too."""
    if isinstance(said, dict):
        inner = [part for name in CHAINS if isinstance(said.get(name), list) for part in said[name]]
        for part in inner:
            yield from _parts(part)
        if not inner:
            yield said


def _factor(part: dict[str, Any]) -> int:
    """How many times longer one part makes a text at worst; what it has counts, not its name."""
    factor = 1
    pattern, content = part.get("pattern"), part.get("content")
    if pattern is not None and isinstance(content, str):
        found = pattern.get("String") if isinstance(pattern, dict) else pattern
        if isinstance(found, str) and found:
            factor *= -(-_bytes(content) // _bytes(found)) or 1
        else:  # a regular expression may find a place between any two characters
            factor *= 1 + _bytes(content)
    for added in ("prepend", "continuing_subword_prefix", "end_of_word_suffix"):
        if isinstance(text := part.get(added), str):
            factor *= 1 + _bytes(text)
    if isinstance(held := part.get("precompiled_charsmap"), str):
        factor *= _longest(held)
    if "single" in part or "pair" in part:
        factor *= max(_framed(part, part.get(name)) for name in ("single", "pair"))
    kind = part.get("type")
    return factor * (FORMS.get(kind, 1) if isinstance(kind, str) else 1)


def _longest(charsmap: str) -> int:
    """The longest text that a map of characters puts in the place of one, in bytes."""
    try:
        held = base64.b64decode(charsmap)
    except ValueError:
        return 1  # which the library refuses
    texts = held[4 + int.from_bytes(held[:4], "little") :]
    return max(1, *map(len, texts.split(b"\0")))


def _framed(frame: dict[str, Any], template: Any) -> int:
    """How many times a frame holds a text; one more for every thousand tokens that it adds."""
    listed = template if isinstance(template, list) else []
    pieces = [piece for piece in listed if isinstance(piece, dict)]
    texts = [piece["Sequence"] for piece in pieces if isinstance(piece.get("Sequence"), dict)]
    one = [text for text in texts if text.get("id") == "A"]
    known, added = frame.get("special_tokens"), 0
    for piece in pieces:
        special = piece.get("SpecialToken")
        name = special.get("id") if isinstance(special, dict) else None
        ids = known.get(name) if isinstance(known, dict) and isinstance(name, str) else None
        added += (
            len(ids["ids"]) if isinstance(ids, dict) and isinstance(ids.get("ids"), list) else 1
        )
    return max(1, len(one), len(texts) - len(one)) + added // 1000


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _named(part: dict[str, Any]) -> str:
    """A part by its kind and the first of what it says."""
    told = {name: value for name, value in part.items() if name not in ("type", "vocab", "merges")}
    return f"{part.get('type', 'a part without a type')} {short(told, 120)}"
