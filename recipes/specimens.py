"""Makes the specimens: trains each by its recipe, and puts it into the package with its card.

    python recipes/specimens.py [NAME ...] [--runs FOLDER]

A run that is done already is taken as it is, one that was stopped goes on. All eight take about
four hours of one core.
"""

import argparse
import datetime
import json
import shutil
from pathlib import Path

from vesalius.checkpoints.plain import read_json
from vesalius.cli.display import display
from vesalius.counting import cost, parameters
from vesalius.data import registry
from vesalius.evaluation import evaluate
from vesalius.model import Model, load_folder
from vesalius.specimens import CARD, FOLDER, SNAPSHOTS, Card
from vesalius.training import Outcome, read_recipe, train
from vesalius.training.recipe import recipe

RECIPES = Path(__file__).parent
NAMES = ("ffnn", "rnn", "lstm", "gpt", "bert", "vit", "igpt", "tst")
PLAYED = "stories-small"
"""The recipe whose snapshots ship."""


def make(name: str, runs: Path) -> Card:
    outcome = trained(name, runs)
    model, stage, target = outcome.model, outcome.folder / "specimen", FOLDER / name
    model.dtype = "float16"
    shutil.rmtree(stage, ignore_errors=True)
    model.save(stage)
    card = described(outcome, load_folder(stage))
    (stage / CARD).write_text(json.dumps(card.to_json(), indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    shutil.move(stage, target)
    return card


def make_snapshots(runs: Path) -> Card:
    """Put the models along a small run into the package, with the card of the last."""
    outcome = trained(PLAYED, runs)
    folders = sorted((outcome.folder / "snapshots").iterdir())
    card = described(outcome, load_folder(folders[-1]))
    shutil.rmtree(SNAPSHOTS, ignore_errors=True)
    shutil.copytree(outcome.folder / "snapshots", SNAPSHOTS)
    (SNAPSHOTS / CARD).write_text(json.dumps(card.to_json(), indent=2) + "\n", encoding="utf-8")
    return card


def trained(name: str, runs: Path) -> Outcome:
    recipe = read_recipe(RECIPES / f"{name}.toml")
    with display() as (callback, progress):
        outcome = train(
            recipe,
            runs / name,
            resume=(runs / name).exists(),
            callbacks=[callback],
            progress=progress,
        )
    if outcome.reason != "finished":
        raise SystemExit(f"{name} was stopped at step {outcome.step}; run this again to go on")
    return outcome


def described(outcome: Outcome, model: Model) -> Card:
    """The card of a model as it ships, half precision and all."""
    newest = sorted((outcome.folder / "checkpoints").iterdir())[-1]
    position = read_json(newest / "position.json")
    written = recipe(position["recipe"])
    corpus = registry.corpus(written.data.corpus)
    window = getattr(written.data, "window", None)
    step = cost(model.config, window, written.training.batch)
    result = evaluate(model, corpus.name).to_json()
    return Card(
        title=written.title,
        family=model.family,
        parameters=parameters(model.config),
        corpus=corpus.name,
        data=corpus.title,
        licence=corpus.licence,
        steps=position["step"],
        operations=step.training_step * position["step"],
        seconds=round(position["seconds"]),
        machine=position["machine"],
        date=str(datetime.date.today()),
        versions=position["versions"],
        result={key: v for key, v in result.items() if isinstance(v, str | int | float)},
        recipe=written.to_json(),
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="*", metavar="NAME", help="; ".join((*NAMES, PLAYED)))
    arguments.add_argument("--runs", type=Path, default=Path("runs"))
    asked = arguments.parse_args()
    for name in asked.names or (*NAMES, PLAYED):
        card = make_snapshots(asked.runs) if name == PLAYED else make(name, asked.runs)
        print(name, f"{card.parameters:,} parameters", card.result)


if __name__ == "__main__":
    main()
