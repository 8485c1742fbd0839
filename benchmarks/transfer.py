"""What pretraining is worth: tasks by several strategies and seeds, beside simple methods.

    python benchmarks/transfer.py --runs FOLDER [--tasks banking77-10 ewt ...] [--write]

A run is one or two recipes. It is kept in the folder with what it came to, so that it is not done
twice, and goes on where it was stopped. Settings are the same for all seeds; the test part is
measured once a run, and a simple method with the first run of a seed. ``--write`` adds the
results to transfer.jsonl, whose runs are not done again either, and draws docs/transfer.svg;
`make docs` makes the tables of them.
"""

import argparse
import datetime
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transfer_tables import INKS, METRICS, RESULT, kept, specimen, write

import vesalius as vs
from vesalius.data import images, registry
from vesalius.data.batches import generator
from vesalius.machine import processor
from vesalius.specimens import FOLDER as SPECIMENS
from vesalius.tasks.labelling.data import LabelledData, labelled_parts
from vesalius.training import read_recipe, train
from vesalius.training.recipe import recipe, write_recipe
from vesalius.training.recipes import recipe_file

Said = dict[str, Any]
Stages = Iterator[tuple[str, Said]]
"""The recipes of a run, each by a name; a later one starts from the model of the one before."""


@dataclass(frozen=True)
class Task:
    """Something to learn from, and what tells how well it was learnt."""

    objective: str
    data: Said
    test: str
    """What is measured at the end: a file, or a corpus by name."""
    steps: int
    batch: int = 32
    models: tuple[str, ...] = ("bert",)
    strategies: tuple[str, ...] = ("scratch", "finetune")


def file_of(corpus: str, part: str) -> str:
    """The file of a corpus whose name holds a word."""
    (found,) = (file for file in registry.locate(corpus) if part in file.name)
    return str(found)


def tasks() -> dict[str, Task]:
    every = ("scratch", "features", "mean", "partial", "lora", "finetune", "read")
    sentences = {"corpus": "banking77", "label": "category", "length": 64}
    texts = {"models": ("bert", "gpt", "lstm"), "strategies": every}
    few: Said = {**sentences, "examples": 10}
    test, classes = file_of("banking77", "test"), "text-classes"
    found = {
        "banking77-10": Task(classes, few, test, 1500, **texts),
        "banking77": Task(classes, sentences, test, 2200, **texts),
        "ewt": Task(
            "tags",
            {"corpus": "ud-ewt", "column": 2, "case": True},
            file_of("ud-ewt", "test"),
            1000,
        ),
        "wnut17": Task(
            "tags",
            {"corpus": "wnut17", "case": True},
            file_of("wnut17", "test"),
            500,
        ),
        "xquad": Task(
            *("answers", {"corpus": "xquad-en", "split": 0.2}, "xquad-en", 600),
            batch=16,
        ),
        "vowels": Task(
            *("series-classes", {"corpus": "japanese-vowels"}, "japanese-vowels", 1500),
            models=("tst",),
            strategies=("scratch", "masked"),
        ),
        "fashion-600": Task(
            *("image-classes", {}, "fashion-mnist", 1000),
            models=("vit",),
            strategies=("scratch", "masked"),
        ),
    }
    for corpus, horizons in (("etth1", (96, 192, 336, 720)), ("illness", (24, 36, 48, 60))):
        name = {"illness": "national-illness"}.get(corpus, corpus)
        for horizon in horizons:
            found[f"{corpus}-{horizon}"] = Task(
                *("forecast", {}, name, 0),
                models=("patchtst",),
                strategies=("scratch",),
            )
    return found


# The recipes of a run --------------------------------------------------------------

RATES = {"muon": 1.5e-3, "adamw": 1e-3}
"""By optimiser, which is the one of the specimen's own recipe: Muon for bert and gpt."""
LORA = {"lora_rank": 16, "lora_matrices": "all", "learning_rate": 3e-3}
READING = {
    "steps": 2000,
    "batch": 32,
    "learning_rate": 1e-3,
    "warmup": 100,
    "final_rate": 0.02,
    "weight_decay": 0.05,
    "evaluate_every": 1000,
    "save_every": 1000,
    "precision": "fastest",
}
"""How a model goes on with the texts of a task before it is shown a label."""


def stages(name: str, task: Task, model: str, strategy: str, seed: int, folder: Path) -> Stages:
    """The recipes of a run in turn."""
    if task.objective == "forecast":
        yield name, forecasting(name, seed)
    elif model in ("tst", "vit"):
        yield from with_masks(task, model, strategy, seed, folder)
    else:
        yield from of_texts(task, model, strategy, seed, folder)


def of_texts(task: Task, model: str, strategy: str, seed: int, folder: Path) -> Stages:
    init: str = f"specimen:{model}"
    if strategy == "read":
        yield "reading", reading(task, model, seed, folder)
        init = str(folder / "reading" / "model")
    training: Said = {"steps": task.steps, "batch": task.batch, "warmup": task.steps // 10}
    training |= {"final_rate": 0.01, "beta2": 0.999}
    training |= {"weight_decay": 0.01, "evaluate_every": task.steps, "save_every": task.steps}
    training |= {"validate_on": 100_000, "precision": "fastest"}
    said: Said = {"objective": task.objective, "seed": seed, "data": dict(task.data)}
    own = read_recipe(recipe_file(model))
    optimiser = own.training.optimiser
    training |= {"optimiser": optimiser, "learning_rate": RATES[optimiser]}
    half = {"frozen_layers": own.model["layers"] // 2}
    said["training"] = {**training, **{"lora": LORA, "partial": half}.get(strategy, {})}
    said["model"] = {"dropout": 0.1} | ({"pooling": "mean"} if strategy == "mean" else {})
    if strategy == "scratch":
        said |= {"family": own.family, "model": {**own.model, "dropout": 0.1}}
        said["data"]["tokenizer"] = str(SPECIMENS / model)
    else:
        named = {"mean": "features"}.get(strategy, strategy)
        said |= {"init": init, "strategy": named if named not in ("finetune", "read") else None}
    yield "run", said


def reading(task: Task, model: str, seed: int, folder: Path) -> Said:
    """The texts to train on, each a document of its own, as more of what the model has read."""
    texts = folder / "texts"
    if not texts.exists():
        whole = {key: value for key, value in task.data.items() if key != "examples"}
        training, *_ = labelled_parts(LabelledData(**whole), "classes", seed)
        (temporary := folder / "texts.part").mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(training.texts):
            (temporary / f"{number:05}.txt").write_text(text, encoding="utf-8")
        temporary.rename(texts)
    bert = model == "bert"
    data: Said = {"corpus": str(texts), "split": 0.05, "window": 48 if bert else 64}
    return {
        "init": f"specimen:{model}",
        "objective": "mlm" if bert else "next-token",
        "seed": seed,
        "data": data | ({"mask_ratio": 0.3} if bert else {}),
        "model": {"dropout": 0.1},
        "training": READING,
    }


def with_masks(task: Task, model: str, strategy: str, seed: int, folder: Path) -> Stages:
    """The classifier's own recipe, from nothing or after what was masked was restored."""
    own = read_recipe(recipe_file(model)).to_json()
    keys = ("objective", "data", "training")
    said: Said = {key: dict(own[key]) if key != "objective" else own[key] for key in keys}
    said |= {"family": own["family"], "model": own["model"], "seed": seed}
    if model == "vit":
        held = file_of("fashion-mnist", "t10k-images")
        said["data"] = {"corpus": labelled_images(folder, seed), "valid": held}
        said["data"] |= {"mirror": True, "shift": 2}
        steps = {"steps": task.steps, "evaluate_every": task.steps, "save_every": task.steps}
        said["training"] |= {**steps, "batch": 64, "warmup": 100}
        said["model"] = {**own["model"], "dropout": 0.1}
    if strategy == "masked":
        shared = folder.parents[2] / "masked"  # labels play no part, so that seeds share it
        restoring = dict(read_recipe(recipe_file("tst-pretraining")).to_json())
        if model == "vit":
            whole = {"corpus": "fashion-mnist", "mirror": True, "mask_ratio": 0.6}
            training = {**own["training"], "steps": 4000}
            restoring |= {"family": "vit", "model": own["model"], "data": whole}
            restoring |= {"objective": "masked-patches", "training": training}
        yield str(shared), {**{k: restoring[k] for k in ("family", "model", *keys)}, "seed": 1}
        said |= {"family": None, "init": str(shared / "model")}
        said["model"] = {"dropout": 0.1}
    yield "run", said


def labelled_images(folder: Path, seed: int, each: int = 60) -> str:
    """One per cent of Fashion-MNIST, as many of every class, in a file."""
    file = folder / "labelled.npz"
    if not file.exists():
        whole = images.read_images(file_of("fashion-mnist", "train-images"))
        assert whole.labels is not None
        order = generator(seed).permutation(len(whole))
        rows = np.concatenate([order[whole.labels[order] == kind][:each] for kind in range(10)])
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(file, images=whole.pixels[rows], labels=whole.labels[rows])
    return str(file)


def forecasting(name: str, seed: int) -> Said:
    corpus, horizon = name.split("-")
    own = read_recipe(recipe_file({"etth1": "etth1-96", "illness": "illness-24"}[corpus]))
    said = own.to_json()
    return {**said, "model": {**said["model"], "horizon": int(horizon)}, "seed": seed}


# Running them ----------------------------------------------------------------------


def run(
    name: str, task: Task, model: str, strategy: str, seed: int, runs: Path, done: list[Said]
) -> Said:
    """What a run came to; of one that was done before, what it came to then."""
    about: Said = {"task": name, "model": model, "strategy": strategy, "seed": seed}
    before = (one for one in done if about.items() <= one.items())
    if found := next(before, None):
        return found
    folder = runs / name / model / strategy / str(seed)
    began, where = time.time(), folder
    for stage, said in stages(name, task, model, strategy, seed, folder):
        where = folder / stage
        said = {key: value for key, value in said.items() if value is not None}
        if (where / "model").exists() and stage != "run":
            continue
        write_recipe(said, folder / f"{Path(stage).name}.toml")
        train(recipe(said), where, resume=(where / "checkpoints").exists())
    simple = not any(one["strategy"] is None for one in done if one["seed"] == seed)
    measured = vs.evaluate(where / "model", task.test, baseline=simple)
    about |= {"date": str(datetime.date.today()), "machine": processor()}
    result = about | {"minutes": round((time.time() - began) / 60, 1)}
    result |= {"specimen": specimen(model)} if model in INKS else {}
    result |= {"test": numbers(measured.to_json())}
    keep(folder, result)
    done.append(result)
    for method in getattr(measured, "baselines", ()):
        row = {**about, "model": method.name, "strategy": None, "test": numbers(method.numbers)}
        keep(runs / name / method.name.replace(" ", "-") / str(seed), row)
        done.append(row)
    return result


def numbers(told: Said) -> dict[str, float]:
    return {name: round(v, 6) for name, v in told.items() if isinstance(v, int | float)}


def keep(folder: Path, result: Said) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).write_text(json.dumps(result) + "\n")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--runs", type=Path, required=True)
    for name in ("tasks", "models", "strategies"):
        arguments.add_argument(f"--{name}", nargs="*")
    arguments.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    arguments.add_argument("--write", action="store_true")
    asked = arguments.parse_args()
    known = tasks()
    for name in asked.tasks or ([] if asked.write else known):
        task, done = known[name], [one for one in kept(asked.runs) if one["task"] == name]
        for seed in asked.seeds:
            for model in (one for one in task.models if one in (asked.models or task.models)):
                for strategy in task.strategies:
                    if strategy in (asked.strategies or task.strategies):
                        found = run(name, task, model, strategy, seed, asked.runs, done)
                        number = found["test"][METRICS[name][0]]
                        print(name, model, strategy, seed, f"{number:.4f}", flush=True)
    if asked.write:
        write(kept(asked.runs))


if __name__ == "__main__":
    main()
