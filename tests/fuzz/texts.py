"""Texts, tables and questions as people write them, and files of other programs.

What may come out is what the file says, or an error of ours.
"""

import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from strategies import filled, small

from fuzz.mutating import CELLS, bytes_changed, json_changed, lines_changed
from vesalius.data import tokens
from vesalius.data.series import read_tables
from vesalius.data.tables import read_table
from vesalius.data.texts import read_texts
from vesalius.data.timelines import read_timeline
from vesalius.tasks.answering.data import read_questions
from vesalius.tasks.labelling.data import LabelledData, read_labelled
from vesalius.tasks.tagging.data import read_tagged
from vesalius.tokenizers import train_byte_pairs, train_word_pieces

Case = Callable[[], object]
TAGGED = "-DOCSTART- -X- O\n\nIt\tPRP\tB-LOC\nrained\tVBD\tI-LOC\n\n# a comment\nBob\tNNP\tO\n"
TABLE = 'text,label,second,group,part\n"It rained, again",dry,b,1,train\nSun,wet|dry,c,2,valid\n'
TABLE += "Snow,0.5,d,2,test\n"
LINES = "\n".join(
    json.dumps({"text": text, "label": label, "second": "b", "group": 1})
    for text, label in (("It rained", "wet"), ("Sun", ["dry", "wet"]), ("Snow", 2), ("Fog", None))
)
WIDE = "date,a,b\n" + "".join(f"2024-01-{k:02},{k},{-k}.5\n" for k in range(1, 15))
LONG = "unique_id,ds,y\n" + "".join(f"{name},2024-01-{k:02},{k}\n" for name in "ab" for k in (1, 2))
DATES = ("9999-12-31", "0001-01-01", "0000-00-00", "2024-02-30", "2024-01-01T25:00", "31/12/2024")
DATES = (*DATES, "2024-01-01 00:00:00+14:00", "1e9", "-1", "١٢", "2024-W01", "99999-01-01", "NaT")
DATES = (*DATES, "2024-01-01 00:00:00.123456789", "1990/1/1 0:00", "T", "24:00", *CELLS)
QUESTIONS = {
    "version": "v2.0",
    "data": [
        {
            "title": "Rain",
            "paragraphs": [
                {
                    "context": "It rained in Paris on Monday.",
                    "qas": [
                        {
                            "id": "1",
                            "question": "Where?",
                            "answers": [{"text": "Paris", "answer_start": 13}],
                        },
                        {"id": "2", "question": "Who?", "is_impossible": True, "answers": []},
                    ],
                }
            ],
        }
    ],
}
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32-be", "latin-1", "cp1252", "shift-jis")


def encoded(random: Random, data: bytes) -> bytes:
    """The same text in another encoding, now and then."""
    if random.random() < 0.8:
        return data
    return data.decode("utf-8", "replace").encode(random.choice(ENCODINGS), "replace")


class Tables:
    """Labelled texts, tags, questions and series along time, in all their files."""

    KINDS = ("classes", "labels", "values")

    def __init__(self, folder: Path) -> None:
        self.readers: list[Callable[[Random, Path], Case]] = [
            self._labelled,
            self._tagged,
            self._questions,
            self._along_time,
            self._plain,
        ]

    def case(self, random: Random, place: Path) -> Case:
        return random.choice(self.readers)(random, place)

    def _labelled(self, random: Random, place: Path) -> Case:
        end = random.choice((".csv", ".tsv", ".jsonl", ".json"))
        text = LINES if end == ".jsonl" else TABLE
        if end == ".json":
            rows = [json.loads(line) for line in LINES.splitlines()]
            data = json_changed(random, rows, [QUESTIONS])
        elif end == ".jsonl" and random.random() < 0.7:
            some = [json_changed(random, json.loads(line)) for line in LINES.splitlines()]
            data = b"\n".join(some)
        else:
            text = text.replace(",", "\t") if end == ".tsv" else text
            data = lines_changed(random, text, separators=",\t\n|")
        file, kind = self._put(random, place, f"x{end}", data), random.choice(self.KINDS)
        columns = (None, "second", "group", "label", "text", "no such column")
        settings = LabelledData(
            label=random.choice(("label", "label", "text,label", "", ",")),
            text=random.choice(("text", "text", "second")),
            second=random.choice(columns),
            group=random.choice(columns),
            separator=random.choice(("|", ",", "ab")),
        )
        names, role = random.choice((None, None, ["dry", "wet"])), random.choice((None, "train"))
        return lambda: read_labelled(read_table(file), settings, kind, names, role)

    def _tagged(self, random: Random, place: Path) -> Case:
        text = TAGGED if random.random() < 0.6 else TAGGED.replace("\t", " ")
        file = self._put(random, place, "x.conll", lines_changed(random, text, separators="\t \n"))
        column, word = random.choice((None, 0, 1, 2, 3, 99)), random.choice((1, 1, 2, 99))
        return lambda: read_tagged(file, column, word)

    def _questions(self, random: Random, place: Path) -> Case:
        file = self._put(random, place, "x.json", json_changed(random, QUESTIONS))
        return lambda: read_questions(file)

    def _along_time(self, random: Random, place: Path) -> Case:
        text = random.choice((WIDE, WIDE, LONG))
        file = self._put(random, place, "x.csv", lines_changed(random, text, DATES))
        after = random.choice((0, 1, 3, 50))

        def read() -> None:
            found = read_timeline(file)
            found.after(after)
            read_tables(file)

        return read

    def _plain(self, random: Random, place: Path) -> Case:
        text = "It rained.\nAgain, it rained!\n\n雨 café 🌧\f\u2028\x85 end" * 3
        file = self._put(random, place, "x.txt", bytes_changed(random, text.encode()))
        share = random.choice((0.1, 0.5, 0.999))

        def read() -> None:
            from vesalius.data.texts import join_lines, split

            found = read_texts(file)
            list(join_lines(found).portions())
            for part in split(found, share):
                list(part.portions())

        return read

    def _put(self, random: Random, place: Path, name: str, data: bytes) -> Path:
        file = place / name
        file.write_bytes(encoded(random, data))
        return file


class TokenFiles:
    """Texts that change while their path, size and time stay, and token files that are damaged.

    The tokens are always those of the text as it is.
    """

    def __init__(self, folder: Path) -> None:
        texts = ["It rained and rained. Again it rained!\n\n"] * 3
        self.tokenizers = [train_byte_pairs(texts, 280), train_word_pieces(texts, 60)]

    def case(self, random: Random, place: Path) -> Case:
        folder, cache = place / "texts", place / "cache"
        folder.mkdir()
        words = ["It", "rained", "again", ".", "\n\n", " ", "and", "!"]
        tokenizer, sentences = random.choice(self.tokenizers), random.random() < 0.5
        size = random.choice((1, 7, 40))
        every = [
            "".join(random.choice(words) for _ in range(60))[:size].ljust(size)
            for _ in range(random.choice((2, 3)))
        ]
        damage = random.random()

        def read() -> None:
            again = Random(damage)
            for text in (*every, *every[:1]):
                file = folder / "0.txt"
                if file.exists() and again.random() < 0.5:
                    file.unlink()
                file.write_text(text)
                os.utime(file, ns=(1, 1))
                if again.random() < 0.3:
                    for kept in sorted(cache.rglob("*.npy")):
                        os.truncate(kept, again.randrange(kept.stat().st_size + 1))
                found, wanted = (
                    tokens.tokenised(read_texts(folder), tokenizer, to, sentences)
                    for to in (cache, None)
                )
                for name in ("ids", "documents", "sentences"):
                    one, other = getattr(found, name), getattr(wanted, name)
                    assert (one is None) == (other is None), name
                    assert one is None or one.tolist() == other.tolist(), name

        return read


def gguf(architecture: str = "qwen2") -> bytes:
    """The beginning of a file of llama.cpp."""

    def text(words: str) -> bytes:
        return struct.pack("<Q", len(words)) + words.encode()

    said = text("general.architecture") + struct.pack("<I", 8) + text(architecture)
    return b"GGUF" + struct.pack("<IQQ", 3, 291, 24) + said + text("general.name") + bytes(64)


def llama2c() -> bytes:
    """A whole file of llama2.c: width 8, inner 16, 2 layers, 4 heads, 2 shared, 32 words, 16."""
    return struct.pack("<7i", 8, 16, 2, 4, 2, 32, 16) + np.zeros(1560, "<f4").tobytes()


class Foreign:
    """Files of other programs in the place of weights, and checkpoints to convert."""

    NAMES = ("model.gguf", "pytorch_model.bin", "model.safetensors", "ckpt.pt", "model.pth")

    def __init__(self, folder: Path) -> None:
        import torch

        model = filled(small("gpt2"), dtype="float32")
        model.save(folder / "gpt2", "huggingface")
        self.config = (folder / "gpt2/config.json").read_bytes()
        state = {name: torch.from_numpy(array.copy()) for name, array in model.state.items()}
        nano = {
            "model": {f"_orig_mod.{name}": tensor for name, tensor in state.items()},
            "model_args": {"n_layer": 2, "n_head": 3, "n_embd": 12, "vocab_size": 17}
            | {"block_size": 9, "bias": True, "dropout": 0.0},
            "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}},
            "iter_num": 7,
            "config": {"dataset": "shakespeare"},
        }
        self.seeds = [gguf(), gguf("bert"), llama2c(), b"24ka" + bytes(400), b"\x89HDF\r\n\x1a\n"]
        self.seeds += [pickle.dumps({"itos": {0: "a"}}), b"version https://git-lfs.github.com/v1\n"]
        self.seeds += [b"PK\x03\x04" + bytes(60), (folder / "gpt2/model.safetensors").read_bytes()]
        for value in (nano, state, {"state_dict": state}):
            torch.save(value, folder / "x.pt")
            self.seeds.append((folder / "x.pt").read_bytes())

    def case(self, random: Random, place: Path) -> Case:
        data = random.choice(self.seeds[random.choice((0, -4, -4)) :])  # the last can be read
        if random.random() < 0.6:
            data = bytes_changed(random, data, self.seeds)
        name = random.choice(self.NAMES)
        (place / name).write_bytes(data)
        if random.random() < 0.5:
            (place / "config.json").write_bytes(self.config)

        def read() -> Any:
            from vesalius.checkpoints.conversion import read_model
            from vesalius.checkpoints.inspection import inspect
            from vesalius.model import load_folder

            inspect(place)
            if len(data) % 2:
                return read_model(place / name)
            return read_model(place) if len(data) % 4 else load_folder(place)

        return read


TARGETS = {"tables": Tables, "tokens": TokenFiles, "foreign": Foreign}
