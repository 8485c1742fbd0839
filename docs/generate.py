"""Writes what can be generated of the pages; a test fails when something is not up to date."""

import functools
import inspect
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import click
import numpy as np
from api_types import api_types
from marked import renewed
from rich.console import Console
from rich.text import Text

import vesalius
from vesalius import specimens
from vesalius.analyses.ablation import Ablation
from vesalius.analyses.alignment import Pair
from vesalius.analyses.attribution import Attribution
from vesalius.analyses.differences import Difference
from vesalius.analyses.gates import Gates, Written
from vesalius.analyses.gradients import Gradient
from vesalius.analyses.heads import Heads
from vesalius.analyses.lens import Lens
from vesalius.analyses.patching import Patching
from vesalius.analyses.surprisal import Surprisal
from vesalius.analyses.unfolding import Unfolding
from vesalius.analyses.words import Contexts, Projection
from vesalius.checkpoints import huggingface, layout, tables
from vesalius.checkpoints.inspection import Inspection
from vesalius.cli import cli
from vesalius.cli.terminal import limits
from vesalius.counting import Cost, Count
from vesalius.equations import Equation, errata, numbered, unnumbered
from vesalius.evaluation import Evaluation, Measures
from vesalius.families import FAMILIES, configuration
from vesalius.families.config import Config
from vesalius.figures import PARTS, Figure, figure
from vesalius.finetuning import FineTuned, FineTunedSeeds
from vesalius.generation.decoding import Generation
from vesalius.generation.sampling import Draw
from vesalius.metrics.classes import ClassMetrics
from vesalius.metrics.predictions import Metrics
from vesalius.metrics.values import ValueMetrics
from vesalius.model import Model
from vesalius.tasks import all_tasks
from vesalius.tasks.answering.metrics import SpanMetrics
from vesalius.tasks.answering.use import Answers
from vesalius.tasks.classification import Classification
from vesalius.tasks.embedding import Embeddings
from vesalius.tasks.forecasting.metrics import ForecastMetrics
from vesalius.tasks.forecasting.use import Forecast
from vesalius.tasks.labelling.metrics import LabelMetrics
from vesalius.tasks.labelling.use import Labels, Value
from vesalius.tasks.language.filling import Filling, NextSentence
from vesalius.tasks.tagging.metrics import TagMetrics
from vesalius.tasks.tagging.use import Tagging
from vesalius.traces.trace import Trace
from vesalius.training.recipe import keys
from vesalius.training.strategies import STRATEGIES
from vesalius.verification.agreement import Verification
from vesalius.views.shown import shown_value

DOCS = Path(__file__).parent
NOTE = "<!-- Written by docs/generate.py: change the source, then run `make docs`. -->"


def equations_page() -> str:
    parts = [
        "# The equations",
        NOTE,
        "Every numbered equation of the paper as a function of `vesalius.equations`, then the "
        "formulas that its text relies on without numbering them, those of models that it cites "
        "(P.1 and on), and of others (L.1, L.2). Letters, columns and shapes are "
        "the paper's; where code and paper part ways, see [errata](errata.md).",
        *(_entry(entry) for entry in numbered()),
        "## Formulas without a number",
        *(_entry(entry) for entry in unnumbered()),
    ]
    return "\n\n".join(parts) + "\n"


def _entry(entry: Equation) -> str:
    file, _ = entry.source
    symbols = [
        f"| `{s.name}` | ${s.latex}$ | {s.shape.replace('|', chr(92) + '|')} | {s.meaning} |"
        for s in entry.symbols
    ]
    parts = [
        f"### {entry.label} {entry.title}",
        f"```math\n{entry.latex}\n```",
        f"{entry.home} · `{entry.name}` in [{file}](../src/{file})",
        *([entry.remarks.replace("``", "`")] if entry.remarks else []),
        *([f"Errata: {_linked(entry)}."] if entry.errata else []),
        "\n".join(["| name | symbol | shape | meaning |", "| --- | --- | --- | --- |", *symbols]),
    ]
    return "\n\n".join(parts)


def _linked(entry: Equation) -> str:
    """The errata of an equation, as links."""
    return "; ".join(f"[{e.number}](errata.md#{e.number.lower()}), {e.title}" for e in entry.errata)


def errata_page() -> str:
    """Where the paper and practice part ways."""
    parts = [
        "# Errata",
        NOTE,
        'Where the paper "Anatomy of Neural Language Models" and practice part ways, in the '
        "paper's order; an entry that was found later has a higher number. Most entries are "
        "small: a missing hat, a constant left out, a letter with two meanings. Numbers in round "
        "brackets are the paper's equations, numbers in square brackets its references. "
        "`vesalius equations 25` names the errata of an equation, `vesalius equations E17` shows "
        "one, and `vs.equations.errata.entries()` gives all.",
        "Each entry is of one of four kinds:",
        ";\n".join(f"- *{kind}*: {meaning}" for kind, meaning in errata.KINDS.items()) + ".",
        *(
            f'<a id="{e.number.lower()}"></a>\n\n## {e.number}. {e.place}: {e.title}\n\n'
            f"*{e.kind}*\n\n**Paper.** {e.paper}\n\n**Practice.** {e.practice}\n\n"
            f"**Code.** {e.code}"
            for e in errata.entries()
        ),
        "---",
        "Each erratum is shown by at least one test in tests/test_errata.py that bears its number: "
        "the test runs what the paper prints beside what the code does, and compares both with "
        "PyTorch, Transformers or a computation by hand.",
    ]
    return "\n\n".join(parts) + "\n"


def commands_page() -> str:
    settings = {**cli.context_settings, "terminal_width": 78}  # whoever makes the page, and where
    context = click.Context(cli, info_name="vesalius", **settings)
    return "\n\n".join(["# The command line", NOTE, *_helps(cli, context)]) + "\n"


def _helps(command: click.Command, context: click.Context) -> Iterator[str]:
    """The help of a command, then of all those below it."""
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.commands[name]
            yield from _helps(below, click.Context(below, info_name=name, parent=context))


def picture_of_count() -> str:
    """The README's picture: what the terminal shows, without the fonts that rich would fetch."""
    command = "vesalius count gpt2"
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "120"}
    shown = subprocess.run(
        [sys.executable, "-m", *command.split()],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    ).stdout
    console = Console(record=True, width=120, file=StringIO())
    console.print(Text.from_ansi(shown.rstrip()))
    svg = console.export_svg(title=command, unique_id="count")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
    return re.sub(r"<!-- Generated with Rich.*?-->\s*", "", svg)


EVERYTHING: dict[str, dict[str, int]] = {
    "gpt2": {"tied": False, "labels": 2},
    "bert": {"mlm_head": True, "nsp_head": True, "labels": 2},
    "vit": {"pooler": True, "masked_patch_head": True},
    "tst": {},
    "patchtst": {"end_padding": False},
    "lstm": {"tied": False, "output_bias": True, "labels": 2},
    "rnn": {"tied": False, "output_bias": True, "labels": 2},
    "ffnn": {"output_bias": True},
}
"""The families that other libraries have too, with all arrays that they can have."""


def rosetta_page() -> str:
    parts = [
        "# The same array in every library",
        NOTE,
        "Every array of a model by the paper's symbol, by our name and by those of "
        "other libraries; `{l}` counts layers from zero, `[l]` from one, `[m]` the heads. Words "
        "after a name say how it is read: our array to give the paper's, another library's to give "
        "ours; a cell is empty where a library has no such array. Hugging Face's classes with a "
        "head put `transformer.`, `bert.`, `vit.` or `model.` before the names of the backbone; "
        "Keras and nanoGPT always tie `U` to `E`. Of recurrent models, PyTorch stands for "
        "`torch.nn.LSTM` and `RNN`, whose two biases are added, with the names of its example "
        "word_language_model, and TensorFlow for its LSTM cells with those of its PTB tutorial; "
        "of feedforward models, and in Keras, libraries have the layers: `nn.Linear`, `LSTM`, "
        "`SimpleRNN` and `Dense`. The four gates come in the same order in PyTorch (i, f, g, o) "
        "and in Keras (i, f, c, o): add R, forget P, candidate Q, output S; TensorFlow's cells "
        "have i, j, f, o. vit-pytorch is that of releases 0.7.0 to 0.40.2. "
        "mvts_transformer is the TST of its authors. [Bringing your own weights](own-weights.md) "
        "shows how to use this.",
        *(_family_names(name, configuration(name, **all_)) for name, all_ in EVERYTHING.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _family_names(family: str, config: Config) -> str:
    libraries = _libraries(family, config)
    columns = ["paper", "ours", *libraries]
    lines = [columns, ["---"] * len(columns)]
    for row in FAMILIES[family].layout.get():
        if row.name.format(l=0) in layout.shapes(config):
            theirs = [rows.get(row.name) for rows in libraries.values()]
            ours = _cell(row.name, row.view.name)
            names = [_cell(r.theirs, r.transform.name) if r else "" for r in theirs]
            lines.append([f"`{row.symbol}`", ours, *names])
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    title = FAMILIES[family].title
    return f"## {title[0].upper()}{title[1:]}\n\n{table}"


def _libraries(family: str, config: Config) -> dict[str, dict[str, tables.Row]]:
    """The rows of every library that has the family, by our names."""
    found, row = {}, FAMILIES[family]
    if family in huggingface.dialects():
        found["Hugging Face"] = huggingface.dialects()[family].rows(config)
    for library, lazy in (*row.libraries.items(), *row.layers.items()):
        found[library] = lazy.get().rows(config)
    return {library: {row.ours: row for row in rows} for library, rows in found.items()}


def _cell(name: str, how: str) -> str:
    return f"`{name}`" if how == "the same" else f"`{name}`, {how}"


def specimens_page() -> str:
    cards = {name: specimens.card(name) for name in specimens.specimens()}
    heads = "| specimen | family | parameters | corpus | operations | minutes | held out |"
    rows = [
        f"| [{name}](#{name}) | {card.family} | {card.parameters:,} | {card.corpus} "
        f"| {card.operations:.2e} | {card.seconds / 60:.0f} | {card.headline} |"
        for name, card in cards.items()
    ]
    parts = [
        "# Specimens",
        NOTE,
        "Small trained models that ship with the package in half precision; `vesalius specimens` "
        "lists them, and their names work wherever a model's folder does. Results are those of "
        "`vesalius evaluate NAME CORPUS` with the weights as they ship, on the part of the corpus "
        "that was not trained on. Operations are those of all matrix products of training, by "
        "formula; minutes are those of the training steps, beside other work.",
        "\n".join([heads, "| --- | --- | ---: | --- | ---: | ---: | --- |", *rows]),
        *(_card(name, card) for name, card in cards.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _card(name: str, card: specimens.Card) -> str:
    numbers = [f"| {key} | {value} |" for key, value in card.numbers.items()]
    return "\n\n".join(
        [
            f"## {name}",
            f"*{card.title}*: {card.parameters:,} parameters, "
            f"{card.steps:,} steps by [recipes/{name}.toml](../recipes/{name}.toml), "
            f"{card.operations:.3g} operations, {card.seconds / 60:.0f} minutes on {card.machine}, "
            f"{card.date}. Data: {card.corpus}, {card.data}; {card.licence}.",
            "\n".join(["| held out | |", "| --- | ---: |", *numbers]),
        ]
    )


SOURCE = DOCS.parent / "src" / "vesalius"
PROSE = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
CITED = re.compile(r"(?<![\w\]])\(([1-9]\d?)(?:(?: to |, )(\d{1,2}))?\)")


def citations_page() -> str:
    """Every place outside the equations that cites one by its number, to be read beside its title.

    Without lines, which change with every edit.
    """
    titles = {int(entry.number): entry.title.split(":")[0] for entry in numbered()}
    rows = []
    for file in sorted(SOURCE.rglob("*.py")):
        if "equations" not in file.relative_to(SOURCE).parts:
            for text in _prose(file):
                for found in CITED.finditer(text):
                    first, last = int(found[1]), int(found[2] or found[1])
                    named = " … ".join(titles[n] for n in sorted({first, last}))
                    cited = " ".join(_around(text, found).split()).replace("|", "\\|")
                    place = f"`{file.relative_to(SOURCE)}`"
                    rows.append(f"| {place} | {cited} | {found[0]} | {named} |")
    parts = [
        "# Where the code cites the paper",
        NOTE,
        "Every number of an equation in the comments and strings outside `equations/`, beside what "
        "that equation is.",
        "\n".join(["| file | words | cited | which is |", "| --- | --- | --- | --- |", *rows]),
    ]
    return "\n\n".join(parts) + "\n"


def _prose(file: Path) -> Iterator[str]:
    """The comments and strings of a file."""
    with file.open("rb") as stream:
        for token in tokenize.tokenize(stream.readline):
            if token.type in PROSE:
                yield token.string.strip("#\"' ")


def _around(text: str, found: "re.Match[str]") -> str:
    """The citation with a few words either side, of its own paragraph."""
    first = max(found.start() - 40, text.rfind("\n\n", 0, found.start()), 0)
    return text[first : found.end() + 30].strip().partition("\n\n")[0]


def python_page() -> str:
    """Every public name of the package, and what its results can do."""
    names = [name for name in vesalius.__all__ if not inspect.ismodule(getattr(vesalius, name))]
    calls = {name: getattr(vesalius, name) for name in names}
    functions = [_call(f"vs.{n}", call) for n, call in calls.items() if inspect.isfunction(call)]
    parts = [
        "# Python",
        NOTE,
        "`import vesalius as vs` imports nothing else; what follows is loaded at its first use. "
        "`vs.equations` holds the [equations](equations.md), `vs.errors` what can be wrong with "
        "input, `vs.families` the table of families. A `ModelLike` is a model, its name or its "
        "folder; a `Setting` a number, a text, true, false or none; a `Source` a file, or an array "
        "of any library; `Given` what a model is fine-tuned on: a file, a folder, a corpus by "
        "name, columns by name, texts, arrays, or a pair of these and their answers.",
        *functions,
        "## Results",
        *(_class(kind) for kind in RESULTS),
    ]
    return "\n\n".join(parts) + "\n"


RESULTS = (Model, Trace, Count, Cost, Verification, Generation, Draw, Evaluation, Measures, Filling)
RESULTS += (NextSentence, Tagging, Answers, Embeddings, Classification, Labels, Value, FineTuned)
RESULTS += (FineTunedSeeds, Forecast, Metrics, ClassMetrics, LabelMetrics, ValueMetrics, TagMetrics)
RESULTS += (SpanMetrics, ForecastMetrics, Inspection)
RESULTS += (Figure, Unfolding, Attribution, Ablation, Patching, Lens, Heads, Gates, Written)
RESULTS += (Gradient, Difference, Pair, Projection, Contexts, Surprisal)


def _call(name: str, call: Callable[..., object]) -> str:
    found = inspect.signature(call)
    lines = [f"    {parameter}," for parameter in found.parameters.values()]
    for i, parameter in enumerate(found.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY and "    *," not in lines:
            lines.insert(i, "    *,")
    gives = inspect.formatannotation(found.return_annotation)
    text = "\n".join([f"{name}(", *lines, f") -> {gives}"])
    text = re.sub(r"<function (\S+) at 0x\w+>", r"\1", text)
    text = re.sub(r"(: |-> )'(.*?)'", r"\1\2", text)
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    return f"## {name}\n\n```python\n{text}\n```\n\n{_said(call)}"


SHORTER = {
    "vesalius.": "",
    "collections.abc.": "",
    "model.Model | str | os.PathLike[str]": "ModelLike",
    "int | float | str | bool | None": "Setting",
}


def _class(kind: type) -> str:
    rows = []
    for name, member in vars(kind).items():
        if not name.startswith("_") and (callable(member) or isinstance(member, PROPERTIES)):
            said = _said(member).split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            rows.append(f"| `{name}{'()' if inspect.isfunction(member) else ''}` | {said} |")
    table = "\n".join(["| | |", "| --- | --- |", *rows])
    return f"### {kind.__name__}\n\n{_said(kind)}\n\n{table}"


PROPERTIES = (property, functools.cached_property)


def _said(thing: object) -> str:
    return (inspect.getdoc(thing) or "").replace("``", "`")


def json_page() -> str:
    """The fields of every JSON, from what the specimens give."""
    gpt, bert = vesalius.load("gpt"), vesalius.load("bert")
    trace, draws = vesalius.dissect(gpt, "He shook his"), list[Draw]()
    generated = vesalius.generate(gpt, "He shook his", 1, on_draw=lambda _, d: draws.append(d))
    memory = vesalius.gates(vesalius.dissect("lstm", "He shook his"))
    sizes = {"channels": 1, "context": 8, "horizon": 2, "patch": 2, "stride": 2}
    forecaster = vesalius.create("patchtst", **sizes)
    shown = {
        "vesalius.count, `count`": vesalius.count("gpt2").to_json(),
        "vesalius.cost, `count --cost`": vesalius.cost("gpt2").to_json(),
        "Trace, `dissect`": trace.to_json(),
        "Figure, `figure`": figure(gpt).to_json(),
        "Unfolding, `unfold`": vesalius.unfold(trace, "Z", 769, 2).to_json(),
        "Attribution, `attribute`": vesalius.attribute(trace, " head").to_json(),
        "Ablation, `ablate`": vesalius.ablate(gpt, "He shook his").to_json(),
        "Patching, `patch`": vesalius.patch(gpt, "He shook his", "He opened his").to_json(),
        "Lens, `lens`": vesalius.lens(trace, " head").to_json(),
        "Heads, `heads`": vesalius.heads(gpt, "He shook his").to_json(),
        "Gates, `gates`": memory.to_json(),
        "Surprisal, `surprisal`": vesalius.surprisal(gpt, "He shook his head").to_json(),
        "Written, `gates --unit`": memory.written(31).to_json(),
        "Gradient, `gradient`": vesalius.gradient(gpt, "He shook his").to_json(),
        "Difference, `diff`": vesalius.diff(gpt, gpt, "He shook", dtype_b="int8").to_json(),
        "Model": gpt.to_json(),
        "Tokenizer.to_json(text), `tokenize`": gpt.tokenizer.to_json("He shook"),
        "Generation, `generate`": generated.to_json(),
        "Draw, `generate --inspect`": draws[0].to_json(gpt.tokenizer),
        "Filling, `fill`": vesalius.fill(bert, "[MASK] opened her eyes.").to_json(),
        "NextSentence, `next-sentence`": vesalius.next_sentence(bert, "It rained.", "He").to_json(),
        "Tagging, `tag`": vesalius.tag(_labelled(bert, "tokens"), "He ran.").to_json(),
        "Answers, `answer`": vesalius.answer(_labelled(bert, "span"), "Who?", "He ran.").to_json(),
        "Forecast, `forecast`": vesalius.forecast(forecaster, [[0.0] * 8]).to_json(),
        "Equation, `equations NUMBER`": numbered()[0].to_json(),
        "Config.described(), `models MODEL`": gpt.config.described(),
    }
    tables = (f"## {name}\n\n{_fields(value)}" for name, value in shown.items())
    about = "What `--json` prints, and what `to_json` gives in Python: one and the same."
    return "\n\n".join(["# JSON", NOTE, about, *tables]) + "\n"


def _labelled(bert: Model, what: str) -> Model:
    """A bert with a head of two labels that has learnt nothing, for the fields of its results."""
    config = bert.config.change(labels=2, labelled=what, mlm_head=False, nsp_head=False)
    left = ("mlm_head.", "nsp_head.")
    state = {name: array for name, array in bert.state.items() if not name.startswith(left)}
    width = state["norm.bias"].size
    state |= {"label_head.weight": np.zeros((2, width), "f4"), "label_head.bias": np.zeros(2, "f4")}
    return Model(config, state, bert.tokenizer, preprocessing={"names": ["B-x", "I-x"]})


def _fields(value: object) -> str:
    rows = [f"| `{path}` | {kind} |" for path, kind in _typed("", value)]
    return "\n".join(["| field | type |", "| --- | --- |", *rows])


def _typed(path: str, value: object) -> Iterator[tuple[str, str]]:
    """Every field with its type; of a list, the fields of its first element."""
    if isinstance(value, dict) and value and path not in NAMED:
        for key, inner in value.items():
            yield from _typed(f"{path}.{key}" if path else key, inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from _typed(f"{path}[]", value[0])
    elif isinstance(value, list):
        inner = type(value[0]).__name__ if value else "…"
        yield path, f"list of {inner}"
    else:
        yield path, "null or more" if value is None else type(value).__name__


NAMED = ("config", "bytes", "also", "decode_state_bytes")
"""Objects whose keys are names."""


def figures_page() -> str:
    """What can be drawn, and what it looks like."""
    rows = []
    for name, kind in PARTS.items():
        numbers = kind.figures if isinstance(kind.figures, str) else " ".join(kind.figures.values())
        found = ", ".join(sorted(set(numbers.split()), key=int))
        place = f"{name}[{kind.place}]" if kind.place else name
        with_text = "needed" if kind.draw is None else "shows" if kind.live else ""
        rows.append(f"| `{place}` | {found} | {kind.says} | {with_text} |")
    drawn = [
        f"![{text}]({name})\n\n{text}: `{command}`" for name, (text, command, _) in DRAWN.items()
    ]
    parts = [
        "# Figures",
        NOTE,
        "Any model or part of it as the paper draws it, from its configuration: bottom to top, "
        "dimensions at the left, parameter sets and their counts at the right.",
        "```sh\n"
        "vesalius figure gpt2 --out gpt2.svg              # the whole; a size needs no weights\n"
        'vesalius figure gpt "block[3]" --out block.png   # a part, of layer 3\n'
        "vesalius figure bert 24                          # by its number in the paper\n"
        'vesalius figure gpt "query[3,4]" --text "He shook his" --out query.svg  # with numbers\n'
        "vesalius figure lstm --list                      # which parts there are\n"
        "```",
        "In Python, `vs.figure(model, part, text)` gives the same, which a notebook shows, "
        "`save` writes, and whose `parts` tell what every id of the SVG stands for: a step of "
        "`vs.dissect`, as `mu[3,4]`, or a path of `model.parameters`, as `Phi[3].Gamma`, with its "
        "count. A trace may stand in the model's place, an edited one too. Where a name is a "
        "specimen's and a family's, the specimen is drawn; `family:lstm` draws the family.",
        "\n".join(
            ["| part | figures | shows | a text |", "| --- | --- | --- | --- |", *rows],
        ),
        "Not every model has every part: gates are an LSTM's, heads a transformer's. A file is SVG "
        "or PNG; for PDF, Inkscape, a browser or `rsvg-convert -f pdf -o a.pdf a.svg` convert the "
        "SVG. It has its title above the drawing, which `titled=False` leaves out, and fixed "
        "colours, light or `--theme dark`; their names are classes too (`fill-state`), so that a "
        "page can set its own.",
        "Dimensions and sets are read from the parameter sets: a set names every member that the "
        "model has, and its count is theirs. Brown are the biases of attention that ζ counts in "
        "equation (40), as in the paper's Figure 17. The one-hot vectors of a text have a cell for "
        "each word that is drawn. The two signed panels of a gate share one scale.",
        *drawn,
    ]
    return "\n\n".join(parts) + "\n"


DRAWN = {
    "figures-gpt2.svg": ("GPT-2", "vesalius figure gpt2", ("gpt2",)),
    "figures-bert.svg": ("BERT with both heads", "vesalius figure bert", ("bert",)),
    "figures-lstm.svg": ("An LSTM", "vesalius figure lstm", ("lstm",)),
    "figures-ffnn.svg": ("A feedforward model", "vesalius figure ffnn tokens", ("ffnn", "tokens")),
    "figures-vit.svg": ("A vision transformer", "vesalius figure vit tokens", ("vit", "tokens")),
    "figures-tst.svg": ("A masked series", "vesalius figure tst input", ("tst", "input")),
    "figures-block.svg": (
        "A block of variant 1",
        "vesalius figure transformer block",
        ("transformer", "block"),
    ),
    "figures-parameters.svg": (
        "All parameters",
        "vesalius figure gpt parameters",
        ("gpt", "parameters"),
    ),
    "figures-query.svg": (
        "Attention by example",
        'vesalius figure gpt "query[3,4]" --text "He shook his"',
        (),
    ),
    "figures-heads.svg": (
        "All heads of a layer",
        'vesalius figure gpt "attention[3]" --text "He shook his"',
        (),
    ),
    "figures-gate.svg": (
        "A gate at work",
        'vesalius figure lstm "forget[2]" --text "He shook his"',
        (),
    ),
}
"""Pictures of the page, and the commands that draw them. Those of a configuration are the same on
every machine, and are checked; numbers of a text may differ in their last digit."""


def recipes_page() -> str:
    parts = [
        "# Recipes",
        NOTE,
        "A recipe is a TOML file. Its keys, which `vesalius recipes --keys` shows too; "
        "`--set training.steps=200` changes one, and the value `none` takes one away. The settings "
        "of `[model]` are the family's: `vesalius models FAMILY` lists them.",
    ]
    learnt = [task.learns for task in all_tasks()]
    rows = [f"| `{o.name}` | {o.title} | {', '.join(o.families)} |" for o in learnt]
    head = ["| objective | predicts | families |", "| --- | --- | --- |"]
    parts.append("\n".join(["## Objectives\n", *head, *rows]))
    rows = [
        f"| `{name}` | {one.title} | {', '.join(f'`{key}`' for key in one.settings)} |"
        for name, one in STRATEGIES.items()
    ]
    head = ["| strategy | trains | its settings |", "| --- | --- | --- |"]
    parts.append("\n".join(["## [Strategies](strategies.md)\n", *head, *rows]))
    for section in dict.fromkeys(row["section"] for row in keys()):
        rows = [
            f"| `{r['key']}` | {shown_value(r['default'])} | {r['meaning']} | {limits(r)} |"
            for r in keys()
            if r["section"] == section
        ]
        name, _, kind = section.partition(", ")
        title = f"## `[{name}]`{f' of {kind}' if kind else ''}" if section else "## The whole"
        head = ["| key | default | meaning | limits |", "| --- | --- | --- | --- |"]
        parts.append("\n".join([f"{title}\n", *head, *rows]))
    return "\n\n".join(parts) + "\n"


PAGES = {
    "../frontend/src/lib/api-types.ts": api_types,
    "python.md": python_page,
    "recipes.md": recipes_page,
    "json.md": json_page,
    "citations.md": citations_page,
    "specimens.md": specimens_page,
    "equations.md": equations_page,
    "errata.md": errata_page,
    "commands.md": commands_page,
    "rosetta.md": rosetta_page,
    "count-gpt2.svg": picture_of_count,
    "figures.md": figures_page,
    **{
        name: functools.partial(lambda of: figure(*of).svg, of)
        for name, (_, _, of) in DRAWN.items()
        if of
    },
}

WRITTEN = [
    page
    for page in [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]
    if page.name not in PAGES
]
"""Pages written by hand, of which marks and the outputs of examples are computed (`marked.py`)."""


def main() -> None:
    for page, write in PAGES.items():
        (DOCS / page).write_text(write())
    for file in WRITTEN:
        file.write_text(renewed(file.read_text()))


if __name__ == "__main__":
    main()
