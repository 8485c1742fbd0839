"""Recipes that take a moment: one for each family and objective, on data made for them."""

import json

import numpy as np

from vesalius.training.recipe import recipe

WORDS = {"corpus": "stories", "words": 3000, "tokenizer": "words"}
BLOCKS = {"layers": 1, "heads": 2, "embedding": 16, "dropout": 0.1}
PIXELS = {"images": (30, 1, 8, 8), "classes": 3}

SMALL = {
    "ffnn": ("ffnn", "next-token", {"context": 3, "embedding": 8, "hidden": 16}, WORDS),
    "rnn": ("rnn", "next-token", {"embedding": 16, "dropout": 0.1}, {**WORDS, "window": 8}),
    "lstm": ("lstm", "next-token", {"embedding": 16, "dropout": 0.1}, {**WORDS, "window": 8}),
    "transformer": ("transformer", "next-token", {**BLOCKS, "context": 8}, WORDS),
    "gpt2": ("gpt2", "next-token", {**BLOCKS, "context": 8}, WORDS),
    "bert": (
        "bert",
        "mlm+nsp",
        {**BLOCKS, "context": 24},
        {**WORDS, "tokenizer": "word-pieces", "vocabulary": 300},
    ),
    "gpt2 classes": (
        "gpt2",
        "text-classes",
        {**BLOCKS, "context": 12, "tied": False},
        {"tokenizer": "byte-pairs", "vocabulary": 280, "balance": True},
    ),
    "bert labels": (
        "bert",
        "text-labels",
        {**BLOCKS, "context": 24},
        {"vocabulary": 60, "second": "second", "label": "tags", "balance": True},
    ),
    "lstm values": (
        "lstm",
        "text-values",
        {"embedding": 16, "output_bias": True},
        {"tokenizer": "words", "label": "value"},
    ),
    "bert tags": ("bert", "tags", {**BLOCKS, "context": 12}, {"vocabulary": 60, "case": True}),
    "bert answers": ("bert", "answers", {**BLOCKS, "context": 24}, {"vocabulary": 60}),
    "vit": ("vit", "image-classes", {**BLOCKS, "patch": 4}, {"shift": 2, "mirror": True}),
    "vit patches": ("vit", "masked-patches", {**BLOCKS, "patch": 4, "classes": 0}, {}),
    "igpt": ("igpt", "next-pixel", BLOCKS, {"side": 4, "levels": 4}),
    "igpt masked": ("igpt", "masked-pixels", BLOCKS, {"side": 4, "levels": 4}),
    "tst": ("tst", "series-classes", BLOCKS, {}),
    "tst series": ("tst", "masked-series", BLOCKS, {}),
    "tst values": ("tst", "series-values", BLOCKS, {}),
    "patchtst": ("patchtst", "forecast", {**BLOCKS, "context": 12, "horizon": 4, "patch": 4}, {}),
}


def small_recipe(name, folder, dropout=0.1, changes=None, **training):
    """A recipe as its file would say it; its data are written to the folder.

    ``changes`` are those of ``--set``.
    """
    family, objective, model, data = SMALL[name]
    model = {**model, "dropout": dropout}
    if family in ("vit", "igpt"):
        data = {**data, "corpus": str(write_images(folder))}
    if family == "tst":
        data = {**data, "corpus": str(write_series(folder, objective == "series-values"))}
    if objective == "forecast":
        data = {**data, "corpus": str(write_timeline(folder))}
    if objective.startswith("text-"):
        data = {**data, "corpus": str(write_texts(folder))}
    if objective in ("tags", "answers"):
        write = write_tags if objective == "tags" else write_questions
        data = {**data, "corpus": str(write(folder))}
    how = {"steps": 50, "batch": 4, "warmup": 5, "evaluate_every": 25, "validate_on": 32}
    how |= {"save_every": 25, "log_every": 1, "learning_rate": 3e-3}
    said = {"family": family, "objective": objective, "seed": 3, "model": model, "data": data}
    return recipe({**said, "training": {**how, **training}}, changes)


def written(recipe, file):
    """The recipe as a file; all that it says is the same in JSON and in TOML."""
    said = recipe.to_json()
    tables = {key: said.pop(key) for key in ("model", "data", "training")}
    lines = []
    for heading, table in {"": said, **tables}.items():
        lines += [f"[{heading}]"] * bool(heading)
        lines += [f"{name} = {json.dumps(v)}" for name, v in table.items() if v is not None]
    file.write_text("\n".join(lines) + "\n")
    return file


def write_images(folder):
    rng, file = np.random.default_rng(0), folder / "images.npz"
    labels = np.arange(40) % 3
    pixels = rng.integers(0, 60, size=(40, 1, 8, 8)) + 60 * labels[:, None, None, None]
    np.savez(file, images=pixels.astype(np.uint8), labels=labels)
    return file


def write_series(folder, numbers=False):
    """Series of two classes, or with a number each."""
    rng, file = np.random.default_rng(0), folder / "waves.ts"
    asked = "@targetLabel true" if numbers else "@classLabel true a b"
    lines = ["@problemName waves", "@univariate false", "@dimensions 2", asked, "@data"]
    for number in range(30):
        channels = rng.normal(loc=number % 2, size=(2, int(rng.integers(4, 9))))
        values = ":".join(",".join(f"{value:.4f}" for value in channel) for channel in channels)
        lines.append(f"{values}:{channels.mean() if numbers else 'ab'[number % 2]}")
    file.write_text("\n".join(lines) + "\n")
    return file


def write_timeline(folder, length=120):
    """Two waves along time."""
    file = folder / "waves.npy"
    np.save(file, np.sin(np.arange(2)[:, None] + 0.4 * np.arange(length)))
    return file


TOPICS = {"card": "lost stolen card wallet", "rate": "exchange rate money euro", "app": "phone app"}


def write_texts(folder, count=40):
    """Texts of three classes of different sizes, with tags, a second text and a number each."""
    rng, file = np.random.default_rng(0), folder / "texts.jsonl"
    lines = []
    for number in range(count):
        topic = ["card", "rate", "card", "app"][number % 4]
        words = rng.choice(TOPICS[topic].split(), int(rng.integers(1, 7)))
        tags = [topic, *(["long"] if len(words) > 3 else [])]
        row = {"text": " ".join(words), "label": topic, "tags": tags, "group": number // 5}
        row |= {"second": f"and {words[0]}", "value": float(len(words) * 10 + 100)}
        lines.append(json.dumps(row))
    file.write_text("\n".join(lines) + "\n")
    return file


NAMES = ["Ada", "Ben Lee", "Cy"]
PLACES = ["Bath", "Ely", "York Street"]


def write_tags(folder):
    """Sentences with names of persons and places, as IOB2; one is longer than the context."""
    lines = []
    for number in range(40):
        who, where = NAMES[number % 3], PLACES[number // 3 % 3]
        for words, kind in ((who, "PER"), ("lived in", ""), (where, "LOC"), (".", "")):
            for at, word in enumerate(words.split()):
                lines.append(f"{word}\t{'BI'[at > 0]}-{kind}" if kind else f"{word}\tO")
        if number:
            lines.append("")
    file = folder / "names.conll"
    file.write_text("\n".join(lines) + "\n")
    return file


def write_questions(folder):
    """Ten articles of two questions each, in SQuAD's format; some paragraphs need windows."""
    articles = []
    for number in range(10):
        who, where = NAMES[number % 3], PLACES[number // 3 % 3]
        text = "It was cold . " * (number % 4) + f"{who} lived in {where} ."
        asked = [("Who lived there ?", who), ("Where was it ?", where)]
        qas = [
            {
                "id": f"{number}-{i}",
                "question": question,
                "answers": [{"text": answer, "answer_start": text.index(answer)}],
            }
            for i, (question, answer) in enumerate(asked)
        ]
        articles.append({"title": f"t{number}", "paragraphs": [{"context": text, "qas": qas}]})
    file = folder / "questions.json"
    file.write_text(json.dumps({"version": "1.1", "data": articles}))
    return file
