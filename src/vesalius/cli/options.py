"""Options that several verbs share."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from vesalius.errors import BrokenFile, EmptyCorpus, ImpossibleSetting

if TYPE_CHECKING:
    from vesalius.model import Model

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
EXTRA = "vesalius.ignore_extra"


extra_option = click.option(
    "--ignore-extra",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, ignore: context.meta.update({EXTRA: ignore}),
    help="Pass over tensors that have no place in the model.",
)
"""For verbs that call ``load``."""
SECOND = "vesalius.second"


second_option = click.option(
    "--second",
    metavar="TEXT",
    expose_value=False,
    callback=lambda context, _, text: context.meta.update({SECOND: text}),
    help="A second text, for a BERT that reads two.",
)
"""For verbs that call ``input_of``."""
TEXTS = click.Path(exists=True, dir_okay=False, allow_dash=True)
"""A file of texts, for ``lines_of``."""


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completes(names: Callable[[], Mapping[str, str]], kind: str) -> Completer:
    """What a shell offers: the names that begin so, with a word on each, or else its own files.

    The word that lets the shell look for files comes first: bash forgets all names before it.
    Names with their kind before them, as specimen:gpt, are for whoever wrote the colon.
    """

    def complete(ctx: object, param: object, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=what)
            for name, what in names().items()
            if name.startswith(incomplete) and (":" in name) == (":" in incomplete)
        ]
        return [CompletionItem(incomplete, type=kind), *found]

    return complete


class Bash(BashComplete):
    """Bash, to which specimen:gpt is three words, of which it completes the last."""

    parted = False

    def get_completion_args(self) -> tuple[list[str], str]:
        from vesalius.checkpoints.naming import MEANINGS

        args, incomplete = super().get_completion_args()
        words: list[str] = []
        for word in (*args, incomplete):
            kind, colon, name = words[-1].partition(":") if words else ("", "", "")
            self.parted = kind in MEANINGS and not name and bool(colon or word == ":")
            if self.parted:
                words[-1] += word
            else:
                words.append(word)
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        value = item.value.partition(":")[2] if self.parted else item.value
        return super().format_completion(CompletionItem(value, type=item.type))


add_completion_class(Bash)


def _models() -> dict[str, str]:
    from vesalius.checkpoints.naming import MEANINGS, known_names
    from vesalius.families import names
    from vesalius.specimens import specimens

    said = {
        f"{kind}:{name}": MEANINGS[kind] for kind, known in known_names().items() for name in known
    }
    bare = dict.fromkeys(names(), "a named size") | dict.fromkeys(specimens(), "a specimen")
    return bare | said


def _specimens() -> dict[str, str]:
    from vesalius.specimens import card, specimens

    return {name: card(name).title for name in specimens()}


def _recipes() -> dict[str, str]:
    from vesalius.training.recipes import recipes

    return {name: known.title for name, known in recipes().items()}


def _corpora() -> dict[str, str]:
    from vesalius.data.registry import corpora

    return {known.name: known.title for known in corpora()}


complete_models = completes(_models, "dir")
complete_specimens = completes(_specimens, "dir")
complete_recipes = completes(_recipes, "file")
complete_corpora = completes(_corpora, "file")


def ignore_extra() -> bool:
    """Whether the verb that is running was told to pass over extra tensors."""
    return bool(click.get_current_context().meta.get(EXTRA, False))


def load(name: str) -> "Model":
    """The model of a verb's argument, loaded as its options say."""
    from vesalius.model import load as load_model

    return load_model(name, ignore_extra=ignore_extra())


def second_of(text: str | None) -> str | None:
    """The second text that the verb that is running was given."""
    second: str | None = click.get_current_context().meta.get(SECOND)
    if second is not None and text is None:
        raise click.UsageError("--second goes with TEXT")
    return second


def input_of(model: "Model", text: str) -> str | tuple[str, str] | list[int]:
    """A text, two, or a file; token ids for models that read tokens and have no tokenizer."""
    from vesalius.data.inputs import reads_arrays

    second = second_of(text)
    if model.tokenizer is not None or reads_arrays(model):
        return text if second is None else (text, second)
    if second is not None:
        raise click.UsageError("--second goes with a TEXT; this model has no tokenizer to read two")
    return ids_of(text)


class Settings(click.ParamType[tuple[str, str]]):
    """``name=value``, as ``--set`` takes it."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        name, sign, text = value.partition("=")
        if not sign or not name or not text:
            raise ImpossibleSetting(f"--set takes name=value, as in heads=8; got {value!r}")
        return name.strip(), text.strip()


def lines_of(file: str) -> list[str]:
    """One text a line, as \\n ends it; an empty one keeps its number, and is refused by it."""
    text = text_of(file)
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def ids_of(text: str) -> list[int]:
    """Token ids, as in '3 1 4' or '3, 1, 4'."""
    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise click.UsageError(f"expected token ids, as in '3 1 4', got {text!r}") from error


def text_of(file: str) -> str:
    """A file's text, or that of standard input, which '-' is."""
    from vesalius.checkpoints.plain import require_end

    name = "standard input" if file == "-" else file
    if file != "-":
        require_end(file)
    with click.open_file(file, "rb") as stream:
        data = stream.read()
    try:
        text: str = data.decode("utf-8").removeprefix("\ufeff")  # which Windows puts before texts
    except UnicodeDecodeError as error:
        raise BrokenFile(
            f"{name} is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; "
            f"save it as UTF-8"
        ) from error
    if not text.strip():
        raise EmptyCorpus(f"{name} holds no text; expected some")
    return text
