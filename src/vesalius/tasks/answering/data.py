"""Questions whose answers stand in a paragraph: SQuAD's JSON, its versions 1.1 and 2.0.

How answers are compared is SQuAD's own: exact match and F1 of words, after lower case, without
punctuation and articles, against the nearest of the true answers.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vesalius.checkpoints.plain import require_end
from vesalius.data import parts, splits
from vesalius.data.settings import Data
from vesalius.errors import BrokenFile, EmptyCorpus, UnusableData
from vesalius.families.config import setting


@dataclass(frozen=True, kw_only=True)
class AnswerData(Data):
    """Questions whose answers are spans of a paragraph."""

    kind = "questions"

    corpus: str = setting("xquad-en", "", "a corpus by name, or a JSON file in SQuAD's format")
    valid: str | None = setting(None, "", "what to validate on; a part of the articles if none")
    split: float = setting(0.1, "", "share to validate on where that is one file", least=0, below=1)
    stride: int | None = setting(
        None, "", "tokens between windows of a long paragraph; half a window if none"
    )
    question: int = setting(64, "", "tokens of a question at most")
    tokenizer: str = setting(
        "word-pieces", "", "word-pieces to learn, or a model whose tokenizer to take; not for init"
    )
    vocabulary: int = setting(8192, "|V|", "tokens to learn at most")


@dataclass(frozen=True)
class Question:
    """A question on a paragraph; impossible where it has no answers."""

    article: str
    id: str
    text: str
    paragraph: str
    answers: tuple[str, ...]
    starts: tuple[int, ...]
    """The first character of each answer."""

    @property
    def spans(self) -> list[tuple[int, int]]:
        return [(s, s + len(a)) for s, a in zip(self.starts, self.answers, strict=True)]


def read_questions(file: str | Path) -> list[Question]:
    """The questions of a file, in its order; an answer that is not where it says is refused."""
    file = Path(file)
    require_end(file)
    try:
        written = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BrokenFile(f"{file} is not JSON: {error}") from error
    found: list[Question] = []
    for number, article in enumerate(_list(file, "the file", written, "data"), 1):
        title = str(article.get("title") or f"article {number}")
        where = f"article {number} ({title})"
        for paragraph in _list(file, where, article, "paragraphs"):
            context = _text(file, where, paragraph, "context")
            asked = _list(file, where, paragraph, "qas")
            found += [_question(file, title, context, one) for one in asked]
    if not found:
        raise EmptyCorpus(f"{file} holds no questions; expected SQuAD's data, paragraphs and qas")
    return found


def _question(file: Path, title: str, context: str, asked: Mapping[str, Any]) -> Question:
    text = _text(file, title, asked, "question")
    where = f"question {asked.get('id') or text!r} ({title})"
    if not text.strip():
        raise UnusableData(f"{file}, {where}: the question is empty; expected a text")
    impossible = asked.get("is_impossible", False)
    said = [] if impossible else _list(file, where, asked, "answers")
    answers, starts = list[str](), list[int]()
    for answer in said:
        words, start = _text(file, where, answer, "text"), answer.get("answer_start")
        if type(start) is not int or start < 0 or not words or not context.startswith(words, start):
            found = context.find(words) if words else -1
            there = "it is not in it at all" if found < 0 else f"it stands at {found} first"
            at = "says no answer_start" if start is None else f"does not stand at character {start}"
            raise UnusableData(
                f"{file}, {where}: the answer {words[:60]!r} {at}; expected where it begins in its "
                f"paragraph, counted from 0: {there}"
            )
        answers.append(words)
        starts.append(start)
    if not answers and not impossible:
        raise UnusableData(f"{file}, {where}: there are no answers; expected one, or is_impossible")
    return Question(title, str(asked.get("id", "")), text, context, tuple(answers), tuple(starts))


def _list(file: Path, where: str, within: Any, key: str) -> list[dict[str, Any]]:
    found = within.get(key) if isinstance(within, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise UnusableData(f"{file}, {where}: expected {key!r}, a list of objects, as SQuAD has it")
    return found


def _text(file: Path, where: str, within: Mapping[str, Any], key: str) -> str:
    if not isinstance(within.get(key), str):
        raise UnusableData(f"{file}, {where}: expected {key!r}, a text, as SQuAD has it")
    return str(within[key])


# Parts --------------------------------------------------------------------------


def _file(name: str) -> Path:
    if parts.here(name):
        if Path(name).is_dir():
            raise UnusableData(f"{name} is a folder; expected a JSON file in SQuAD's format")
        return Path(name)
    return parts.located(name, "questions", lambda file: file.suffix == ".json")[0]


def training_parts(
    data: AnswerData, seed: int
) -> tuple[list[Question], list[Question], dict[str, Any]]:
    """Questions to train on and to validate on; and how one file was split, to be kept.

    All questions on an article are on one side.
    """
    file = _file(data.corpus)
    whole = read_questions(file)
    if data.valid is not None:
        return whole, read_questions(_file(data.valid)), splits.all_of(file)
    kept = splits.split_of(file, data.split, seed)
    train, valid = splits.rows([question.article for question in whole], kept)
    return [whole[row] for row in train], [whole[row] for row in valid], kept


def held_out_part(data: AnswerData, kept: Mapping[str, Any]) -> tuple[list[Question], str]:
    """What to evaluate on, and in words which part of the corpus that is."""
    file = _file(data.corpus)
    whole = read_questions(file)
    if not splits.same(file, kept):
        return whole, "all"
    if splits.whole(kept):
        return whole, splits.SEEN
    _, rows = splits.rows([question.article for question in whole], kept)
    valid = [whole[row] for row in rows]
    articles = len({question.article for question in valid})
    many = f"{len(valid):,} questions on {articles} article{'' if articles == 1 else 's'}"
    return valid, f"the {many} that training held out"


# Comparing ----------------------------------------------------------------------

ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised(answer: str) -> str:
    """Lower case, without ASCII punctuation, articles and superfluous white space."""
    plain = "".join(c for c in answer.lower() if c not in string.punctuation)
    return " ".join(ARTICLES.sub(" ", plain).split())


def exact(answer: str, truth: str) -> float:
    return float(normalised(answer) == normalised(truth))


def f1(answer: str, truth: str) -> float:
    """The harmonic mean of precision and recall over words; of nothing, whether both are."""
    given, wanted = normalised(answer).split(), normalised(truth).split()
    if not given or not wanted:
        return float(given == wanted)
    shared = (Counter(given) & Counter(wanted)).total()
    return 2 * shared / (len(given) + len(wanted))


def compared(answers: Sequence[str], truths: Iterable[Sequence[str]]) -> dict[str, float]:
    """Means of exact match and F1, each against the nearest truth; none is the empty answer."""
    pairs = [(a, t or ("",)) for a, t in zip(answers, truths, strict=True)]
    return {
        name: sum(max(by(a, truth) for truth in t) for a, t in pairs) / max(1, len(pairs))
        for name, by in (("exact_match", exact), ("f1", f1))
    }
