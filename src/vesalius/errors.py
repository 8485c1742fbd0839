"""What can be wrong with input, one name each.

All are ``ValueError``s whose text says what was expected, what came and what to do.
Mistakes of our own are assertions and never appear here.
"""

import re
from collections.abc import Iterable

LONGEST_WORD = 1000  # characters, since files can say anything
CONTROL = {
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
}
"""Characters that a terminal obeys, and what is shown in their place: ␛ for an escape."""


def printable(text: str) -> str:
    """A text from a file, in which nothing commands a terminal or turns the direction around."""
    return text.translate(CONTROL)


class VesaliusError(ValueError):
    """Input that cannot be used; the message is meant for the person who gave it."""

    longest = 3000
    """Characters of a message; the middle of a longer one is left out."""

    def __init__(self, message: str = "") -> None:
        message = printable(message)
        message = re.sub(rf"(\S{{{LONGEST_WORD}}})\S+", r"\1…", message)
        if len(message) > self.longest:  # what to do stands at the end
            message = f"{message[: self.longest - 500]} … {message[-500:]}"
        super().__init__(message)


class UnknownModel(VesaliusError):
    """A name that is neither a named size nor a family."""


class AmbiguousName(VesaliusError):
    """A bare name of two things; the message says how to name each."""


class UnknownSetting(VesaliusError):
    """A hyperparameter that the family does not have."""


class ImpossibleSetting(VesaliusError):
    """A hyperparameter of the wrong type, out of range, or at odds with another."""


class UnknownEquation(VesaliusError):
    """A number outside the paper's 1 to 67, or a name that is not registered."""


class UnknownStep(VesaliusError, KeyError):
    """A step that the trace does not hold."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class UnknownPart(VesaliusError):
    """A part that the model does not have, or that no figure shows."""


class TokenOutOfRange(VesaliusError):
    """A token id outside the vocabulary."""


class NotInVocabulary(VesaliusError):
    """A token or a character that the vocabulary does not hold."""


class EmptySequence(VesaliusError):
    """A sequence of no tokens: there is nothing to predict from."""


class SequenceTooLong(VesaliusError):
    """More tokens than the model has positions for."""


class WrongLength(VesaliusError):
    """A sequence of another length than a fixed window, or than its companion, has."""


class NotFinite(VesaliusError):
    """NaN or infinity among the parameters or in the input."""


class NotACheckpoint(VesaliusError):
    """A folder that holds no model, or holds it in a form that is not read."""


class BrokenFile(VesaliusError):
    """A file that is damaged, cut short, or not what its name says."""


class AlreadyThere(VesaliusError):
    """A file or folder in the place where a new one is to be made."""


class UnknownConfiguration(VesaliusError):
    """A config.json of a model that is not known here, or that contradicts itself."""


class CheckpointMismatch(VesaliusError):
    """Tensors that are missing, left over or misshapen; all of them are listed."""

    longest = 100_000


class WrongKind(VesaliusError):
    """A model asked for something that models of its family do not do."""


class CannotBePickled(VesaliusError):
    """A result that cannot go to another process as it is."""


class EmptyCorpus(VesaliusError):
    """A corpus with nothing in it, or with less than one example needs."""


class UnusableData(VesaliusError):
    """Examples with gaps, unlike each other, or without what is asked of them."""


class UnusableGrammar(VesaliusError):
    """Rules or tables that contradict themselves, or leave open which rule a word came from."""


class ImpossibleContext(VesaliusError):
    """Words that the grammar cannot produce in this order."""


class UnknownRecipe(VesaliusError):
    """A name that is neither a file nor a recipe of the package."""


class UnknownCorpus(VesaliusError):
    """A name that is not in the registry of corpora."""


class NotFetched(VesaliusError):
    """A corpus whose files are not here; the message says how to come by them."""


class LossNotFinite(VesaliusError):
    """Training whose loss or gradient turned to NaN or infinity."""


class AnotherRecipe(VesaliusError):
    """A run that is to go on with another recipe than it began with."""


class NoRun(VesaliusError):
    """A folder without a run, where one is to go on."""


class RunLocked(OSError):
    """A run's folder that another process is writing to."""


class SaveFailed(OSError):
    """A checkpoint that could not be written; those before it are untouched."""


class Unreachable(OSError):
    """An address that cannot be reached, or the network itself."""


class MissingExtra(OSError):
    """A package that the plain installation leaves out; the message says how to get it."""


class CannotCompile(OSError):
    """Numba is missing, or cannot compile the kernels that something needs."""


class BrokenPlugin(OSError):
    """A family of another package that cannot be used; the message names its entry point."""


class Unwritable(OSError):
    """A folder for fetched or made things that is not there or cannot be written."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message: the closest known names, or the first where none is close."""
    from difflib import get_close_matches  # only where something is wrong

    known = list(known)
    same = [one for one in known if one.lower() == name.lower()]
    close = same or get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {', '.join(close)}?"
    more = ", …" if len(known) > 8 else ""
    return f"there are: {', '.join(known[:8])}{more}"


def listed(names: Iterable[str], word: str) -> str:
    """``a, b or c``, with ``word`` before the last."""
    *before, last = names
    return f"{', '.join(before)} {word} {last}" if before else last
