"""The command line: one verb for each thing that people do.

Verbs read their arguments, call the library and show what it gives, as a table or with ``--json``.
Exit codes: 0, 2 for bad input, 3 for trouble in the environment; an error is one line.
"""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vesalius import __version__, terminal
from vesalius.errors import ImpossibleSetting, VesaliusError

if TYPE_CHECKING:
    from vesalius.families.configs import Config

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


class Settings(click.ParamType[tuple[str, str]]):
    """``name=value``, as ``--set`` takes it."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        name, sign, text = value.partition("=")
        if not sign or not name or not text:
            raise ImpossibleSetting(f"--set takes name=value, as in heads=8; got {value!r}")
        return name.strip(), text.strip()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="vesalius %(version)s")
def cli() -> None:
    """The executable anatomy of neural language models.

    Example: vesalius count gpt2
    """


@cli.command()
@click.argument("model", required=False)
@json_option
def models(model: str | None, as_json: bool) -> None:
    """What there is: every named size; with MODEL its settings, which --set can change.

    Example: vesalius models gpt2
    """
    from vesalius.counting import count
    from vesalius.families import FAMILIES, SIZES, configuration, names

    if model:
        config = configuration(model)
        rows = [
            {"name": name, "symbol": rule["symbol"], "value": getattr(config, name)}
            | {"meaning": rule["meaning"], "choices": rule["choices"]}
            for name, rule in config.settings().items()
        ]
        if as_json:
            return terminal.show_json(rows)
        shown = [
            (
                r["name"],
                r["symbol"],
                terminal.setting_value(r["value"]),
                terminal.setting_meaning(r),
            )
            for r in rows
        ]
        return terminal.show(
            terminal.table(("setting", "symbol", "value", "meaning"), shown, title=model)
        )
    found: list[dict[str, Any]] = []
    for name in names():
        counted = count(name)
        source = SIZES[name].source if name in SIZES else "the family's defaults"
        numbers = {"family": counted.family, "parameters": counted.total}
        found.append({"name": name, **numbers, "source": source})
    if as_json:
        return terminal.show_json(found)
    listed = [
        (m["name"], FAMILIES[m["family"]].title, f"{m['parameters']:,}", m["source"]) for m in found
    ]
    return terminal.show(
        terminal.table(("model", "family", "parameters", "source"), listed, right=(2,))
    )


@cli.command()
@click.argument("number", required=False)
@click.option("--all", "everything", is_flag=True, help="Formulas without a number too.")
@json_option
def equations(number: str | None, everything: bool, as_json: bool) -> None:
    """The paper's equations; with NUMBER (or a function's name) one of them in full.

    Example: vesalius equations 28
    """
    from vesalius import equations as eq

    if number is not None:
        entry = eq.find(number)
        return terminal.show_json(entry.to_json()) if as_json else terminal.show_equation(entry)
    found = eq.numbered() + (eq.unnumbered() if everything else [])
    if as_json:
        return terminal.show_json([entry.to_json() for entry in found])
    rows = [(e.label, e.section, e.title, e.plain.split("\n")[0]) for e in found]
    return terminal.show(terminal.table(("", "section", "title", "formula"), rows, right=(0,)))


@cli.command()
@click.argument("model")
@click.option("--set", "settings", type=Settings(), multiple=True, help="Change a hyperparameter.")
@click.option("--cost", "with_cost", is_flag=True, help="Operations and memory too.")
@click.option(
    "--length",
    type=int,
    help="Tokens of the cost; the longest sequence, or one for rnn and lstm, unless said.",
)
@click.option("--batch", type=int, default=1, show_default=True, help="Sequences of the cost.")
@json_option
def count(
    model: str,
    settings: tuple[tuple[str, str], ...],
    with_cost: bool,
    length: int | None,
    batch: int,
    as_json: bool,
) -> None:
    """The parameters of MODEL by formula: the paper's tables with numbers.

    Example: vesalius count gpt2 --set heads=8 --cost --length 512
    """
    from vesalius.counting import cost_config, count_config

    if length is not None and not with_cost:
        raise click.UsageError("--length belongs to --cost; give both")
    config = _configuration(model)
    config = config.change(**{name: config.read(name, text) for name, text in settings})
    counted = count_config(config, model)
    costs = cost_config(config, length, batch, model) if with_cost else None
    if as_json:
        terminal.show_json(counted.to_json() | ({"cost": costs.to_json()} if costs else {}))
    else:
        terminal.show_count(counted)
        if costs:
            terminal.show_cost(costs)


def _configuration(model: str) -> "Config":
    """Of a named size or family, or of a model's folder."""
    from vesalius.families import configuration, names

    if model in names():
        return configuration(model)
    from vesalius.model import is_folder, read_config

    return read_config(Path(model)) if is_folder(model) else configuration(model)


@cli.command()
@click.argument("model")
@click.argument("text", required=False)
@click.option("--ids", help="Token ids in place of TEXT, as in '31 41 59'.")
@click.option(
    "--array",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An image (height x width x channels) or series (channels x time) as .npy.",
)
@click.option("--only", help="Steps to keep, as in 'A[3], mu[1,*]'.")
@click.option("--save", type=click.Path(dir_okay=False), help="Write all values to this file.")
@click.option(
    "--top", type=click.IntRange(0), default=10, show_default=True, help="Likeliest words."
)
@json_option
def dissect(
    model: str,
    text: str | None,
    ids: str | None,
    array: Path | None,
    only: str | None,
    save: str | None,
    top: int,
    as_json: bool,
) -> None:
    """One forward pass of MODEL on TEXT in the paper's equations, every step.

    Example: vesalius dissect ./my-gpt2 "I forgot to take my" --only "A, Y_hat"
    """
    from vesalius.dissection import dissect as run
    from vesalius.errors import UnknownStep
    from vesalius.model import load

    given = [value for value in (text, ids, array) if value is not None]
    if len(given) != 1:
        raise click.UsageError("expected TEXT, --ids or --array, one of them")
    read = text if text is not None else _numbers(ids) if ids is not None else _array(given[0])
    trace = run(load(model), read, only)
    if save:
        trace.save(save)
    try:
        words = trace.likeliest(top)
    except UnknownStep:  # no head for words, or not recorded
        words = []
    if as_json:
        likeliest = [{"id": i, "token": token, "probability": p} for i, token, p in words]
        steps = [summary.to_json() for summary in trace.summaries()]
        names = {"family": trace.family, "ids": trace.ids, "tokens": trace.tokens()}
        return terminal.show_json({**names, "steps": steps, "likeliest": likeliest})
    return terminal.show_trace(trace, words, everything=only is not None, saved=save)


def _array(file: Any) -> Any:
    import numpy as np

    from vesalius.errors import BrokenFile

    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise BrokenFile(f"{file} is no array in NumPy's format: {error}") from error


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.replace(",", " ").split()]
    except ValueError:
        raise click.UsageError(f"--ids takes whole numbers, got {text!r}") from None


@cli.command()
@click.argument("model")
@click.option("--against", default="equations", show_default=True, help="Whom to compare with.")
@click.option("--length", type=click.IntRange(1), default=12, show_default=True, help="Tokens.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random input."
)
@json_option
def verify(model: str, against: str, length: int, seed: int, as_json: bool) -> None:
    """Do the equations, the network and another library agree on MODEL? Step by step.

    Against "equations" the network alone is compared with them; against "transformers" or "keras"
    that library too. Exit code 0 if all steps agree, 1 if not.

    Example: vesalius verify ./my-gpt2 --against transformers
    """
    from vesalius.model import load
    from vesalius.verification import verify as run

    result = run(load(model), against, length, seed)
    if as_json:
        terminal.show_json(result.to_json())
    else:
        terminal.show_verification(result)
    if result.first_divergence is not None:
        raise click.exceptions.Exit(1)


@cli.command()
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "layout",
    type=click.Choice(["huggingface", "vesalius"]),
    default="huggingface",
    show_default=True,
    help="Layout to write.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32", "float16", "bfloat16"]),
    help="Precision to write; as read unless said.",
)
@json_option
def convert(source: Path, target: Path, layout: str, dtype: str | None, as_json: bool) -> None:
    """Write the model of folder SOURCE to folder TARGET, in Hugging Face's layout or in ours.

    This is the one place that reads .bin and .pt files, as weights alone.

    Example: vesalius convert ./old-gpt2 ./new-gpt2
    """
    from vesalius.checkpoints import files, pickled
    from vesalius.errors import NotACheckpoint
    from vesalius.model import load_folder

    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise NotACheckpoint(f"{target} is there already and not empty; give a new folder")
    held = any((source / name).exists() for name in (files.WEIGHTS, files.INDEX))
    tensors = None if held else pickled.read(pickled.find(source))
    model = load_folder(source, tensors=tensors)
    model.dtype = dtype or model.dtype
    model.save(target, layout)
    done = {"source": str(source), "target": str(target), "layout": layout, "dtype": model.dtype}
    if as_json:
        return terminal.show_json({**done, "family": model.family, "tensors": len(model.state)})
    return click.echo(f"{target}: {model.family} in {layout}'s layout, {model.dtype}")


@cli.command()
@click.argument("model", required=False)
@click.argument("text", required=False)
@click.option("--rule", help="A rule of Table 7 in place of a MODEL, as in 'suffixes'.")
@json_option
def tokenize(model: str | None, text: str | None, rule: str | None, as_json: bool) -> None:
    """The tokens of TEXT by the tokenizer in folder MODEL, or by a rule.

    Example: vesalius tokenize --rule suffixes "I'm looking for a job in New York."
    """
    from vesalius.errors import NotACheckpoint, UnknownSetting, nearest
    from vesalius.tokenizers import RULES, read_tokenizer

    if rule is not None:
        if rule not in RULES:
            raise UnknownSetting(f"unknown rule {rule!r}; {nearest(rule, RULES)}")
        if model is None or text is not None:
            raise click.UsageError("--rule takes one TEXT and no MODEL")
        tokens = RULES[rule](model)
        return terminal.show_json(tokens) if as_json else click.echo(" · ".join(tokens))
    if model is None or text is None:
        raise click.UsageError("expected MODEL and TEXT, or --rule and TEXT")
    tokenizer = read_tokenizer(Path(model))
    if tokenizer is None:
        raise NotACheckpoint(f"{model} holds no tokenizer; expected tokenizer.json or vocab files")
    found = tokenizer.encode_with_offsets(text)
    rows = [
        {"id": i, "token": tokenizer.piece(i), "start": start, "end": end}
        | {"bytes": tokenizer.bytes_of(i).hex(" ")}
        for i, (start, end) in zip(found.ids, found.offsets, strict=True)
    ]
    if as_json:
        return terminal.show_json(rows)
    heads = ("id", "token", "bytes", "from", "to")
    cells = [(r["id"], repr(r["token"]), r["bytes"], r["start"], r["end"]) for r in rows]
    return terminal.show(terminal.table(heads, cells, right=(0, 3, 4)))


@cli.group()
def tokenizer() -> None:
    """Tokenizers of one's own.

    Example: vesalius tokenizer train book.txt --size 4096 --out ./pieces
    """


@tokenizer.command("train")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--kind",
    type=click.Choice(["byte-pairs", "word-pieces", "characters"]),
    default="byte-pairs",
    show_default=True,
    help="What the tokens are.",
)
@click.option(
    "--size", type=click.IntRange(1), default=8192, show_default=True, help="Tokens at most."
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write.")
@json_option
def train_tokenizer(
    files: tuple[Path, ...], kind: str, size: int, out: Path, as_json: bool
) -> None:
    """Learn the vocabulary of a tokenizer from text FILES.

    Example: vesalius tokenizer train book.txt --kind word-pieces --size 4096 --out ./pieces
    """
    from vesalius import tokenizers

    texts = tokenizers.read_texts(files)
    learnt = {
        "byte-pairs": lambda: tokenizers.train_byte_pairs(texts, size),
        "word-pieces": lambda: tokenizers.train_word_pieces(texts, size),
        "characters": lambda: tokenizers.train_characters(texts),
    }[kind]()
    learnt.save(out)
    if as_json:
        return terminal.show_json({"kind": kind, "size": learnt.size, "folder": str(out)})
    return click.echo(f"{out}: {kind}, {learnt.size:,} tokens")


def main() -> None:
    """Run the command line; whatever goes wrong ends in one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals that know no Greek
    sys.exit(_guarded(lambda: cli.main(standalone_mode=False)))


def _guarded(run: Callable[[], Any]) -> int:
    try:
        run()
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        return _fail(error.format_message(), 2)
    except VesaliusError as error:
        return _fail(str(error), 2)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _fail("there is not enough memory for this", 3)
    except (OSError, ImportError) as error:
        return _fail(str(error), 3)
    return 0


def _fail(message: str, code: int) -> int:
    click.echo(f"vesalius: {' '.join(message.split())}", err=True)
    return code
