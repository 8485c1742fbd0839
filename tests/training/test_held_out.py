"""No example that a model is evaluated on was trained on, though both come from one file."""

import json

import numpy as np
import pytest
from PIL import Image
from small import small_recipe

from vesalius import evaluate
from vesalius.arguments import silent
from vesalius.data import parts, splits
from vesalius.data.settings import ImageData
from vesalius.tasks import task_named
from vesalius.training import Callback, train

ONE_STEP = {"steps": 1, "evaluate_every": 1, "save_every": 1}
WORDS = ("ant", "bee", "cow", "dog", "eel", "fox", "gnu", "hen", "ibex", "jay")


def numbered(number):
    """Words that no other number has."""
    return " ".join(WORDS[int(digit)] for digit in f"{number:03d}")


def write_texts(folder):
    rows = [
        {"text": numbered(n), "label": "ab"[n % 2], "tags": ["ab"[n % 2]], "value": n}
        for n in range(60)
    ]
    file = folder / "own.jsonl"
    file.write_text("\n".join(json.dumps({**row, "second": "x"}) for row in rows) + "\n")
    return file


def write_tags(folder):
    file = folder / "tags.tsv"
    sentences = ("\n".join(f"{word}\t{word[0]}" for word in numbered(n).split()) for n in range(60))
    file.write_text("\n\n".join(sentences) + "\n")
    return file


def write_questions(folder):
    articles = []
    for n in range(20):
        answers = [{"text": WORDS[n // 10], "answer_start": 4}]
        text = f"the {WORDS[n // 10]} {numbered(n)}"
        asked = {"question": f"what {numbered(n)} ?", "id": str(n), "answers": answers}
        articles.append({"title": str(n), "paragraphs": [{"context": text, "qas": [asked]}]})
    file = folder / "own.json"
    file.write_text(json.dumps({"data": articles}))
    return file


def write_lines(folder):
    file = folder / "lines.txt"
    file.write_text("".join(f"{numbered(n)} .\n" for n in range(200)))
    return file


def write_pngs(folder):
    """A folder for each class."""
    rng = np.random.default_rng(0)
    for name, many in {"cat": 30, "owl": 10}.items():
        (folder / "pngs" / name).mkdir(parents=True)
        for number in range(many):
            pixels = rng.integers(0, 255, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "pngs" / name / f"{number}.png")
    return folder / "pngs"


KINDS = {
    "gpt2 classes": (write_texts, "the 6 texts that training held out"),
    "bert labels": (write_texts, "the 6 texts that training held out"),
    "lstm values": (write_texts, "the 6 texts that training held out"),
    "bert tags": (write_tags, "the 6 sentences that training held out"),
    "bert answers": (write_questions, "the 2 questions on 2 articles that training held out"),
    "vit": (write_pngs, "the 4 images that training held out"),
    "vit patches": (None, "the 3 images that training held out"),
    "igpt": (None, "the 3 images that training held out"),
    "tst": (None, "the 2 series that training held out"),
    "tst series": (None, "the 2 series that training held out"),
    "tst values": (None, "the 3 series that training held out"),
}


class Watching(Callback):
    def begins(self, run):
        self.training = run.batches.training


def trained(name, folder, write):
    """A model after one step, its corpus, and what it was trained on."""
    changes = {"data.corpus": str(write(folder))} if write else {}
    recipe = small_recipe(name, folder, changes=changes, **ONE_STEP)
    watching = Watching()
    outcome = train(recipe, folder / "run", callbacks=[watching])
    return outcome.model, recipe, watching.training


def contents(part):
    """The examples of a part, so that equal ones are equal."""
    if hasattr(part, "rows"):  # tokens
        return {tuple(np.asarray(row.ids).tolist()) for row in part.rows}
    arrays = part.pixels if hasattr(part, "pixels") else part.values
    return {np.asarray(array).tobytes() for array in arrays}


@pytest.mark.parametrize("name", KINDS)
def test_what_is_evaluated_of_a_file_was_not_trained_on(name, tmp_path):
    write, said = KINDS[name]
    model, recipe, training = trained(name, tmp_path, write)
    corpus = recipe.data.corpus
    found = evaluate(model, corpus)
    assert found.part == said
    held_out = task_named(recipe.objective).learns.held_out(model, corpus, silent)
    tested = contents(held_out.batches.validation)
    assert tested
    assert not tested & contents(training)
    model.preprocessing = model.preprocessing.change(
        held_out=None
    )  # as if another file had been trained on
    whole = evaluate(model, corpus)
    assert whole.part == "all"
    assert whole.examples > 4 * found.examples


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_of_a_text_the_last_part_is_evaluated_that_was_held_out(name, tmp_path):
    file = write_lines(tmp_path)
    changes = {"data.corpus": str(file), "data.split": "0.25"}
    changes |= {"objective": "mlm"} if name == "bert" else {}
    model = train(small_recipe(name, tmp_path, changes=changes, **ONE_STEP), tmp_path / "run").model
    training, _ = parts.training_texts(str(file), 0, None, 0.25)
    tested, _ = parts.evaluation_texts(str(file), model.preprocessing.held_out)
    assert tested.parts[0].start == training.parts[0].end
    size = file.stat().st_size
    assert tested.parts[0].end == size
    found = evaluate(model, str(file))
    assert found.part == f"{tested.size():,} of {size:,} bytes, which training held out"
    other = tmp_path / "other.txt"
    other.write_text(file.read_text() + "ant .\n")
    assert evaluate(model, str(other)).part == "all"


def test_files_that_training_saw_as_a_whole_are_called_so(tmp_path):
    file, other = write_texts(tmp_path), tmp_path / "other.jsonl"
    other.write_text("\n".join(file.read_text().splitlines()[:7]) + "\n")
    changes = {"data.corpus": str(file), "data.valid": str(other)}
    recipe = small_recipe("gpt2 classes", tmp_path, changes=changes, **ONE_STEP)
    model = train(recipe, tmp_path / "run").model
    assert evaluate(model, str(file)).part == splits.SEEN
    assert evaluate(model, str(other)).part == "all"


def test_images_of_one_s_own_are_split_by_class_and_by_the_seed(tmp_path):
    data = ImageData(corpus=str(write_pngs(tmp_path)))
    held = [parts.image_parts(data, seed)[1] for seed in (0, 1)]
    assert all(np.bincount(part.labels).tolist() == [3, 1] for part in held)
    assert contents(held[0]) != contents(held[1])
    assert held[0].origins[-1].startswith("owl/")
    few = splits.apart([0, 1, 2, 3], 0.25, 0)  # too small for a share of each
    assert sorted(map(len, few)) == [1, 3]


def test_a_folder_is_the_same_wherever_it_is_and_another_once_a_file_changes(tmp_path):
    pngs = write_pngs(tmp_path)
    _, _, kept = parts.image_parts(ImageData(corpus=str(pngs)), 3)
    moved = pngs.rename(tmp_path / "moved")
    assert parts.held_out_images(ImageData(corpus=str(moved)), kept)[1].startswith("the 4 images")
    (moved / "cat" / "0.png").rename(moved / "owl" / "99.png")
    assert parts.held_out_images(ImageData(corpus=str(moved)), kept)[1] == "all"
