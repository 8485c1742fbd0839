"""What is fuzzed: for every kind of file that people hand over, seeds of our own, damaged.

A target builds its seeds in a folder; ``case`` then writes a damaged one to a place and gives what
reads it, and goes on to use what was read as a verb would.
"""

import gzip
import io
import json
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
from h5files import FLIPS, LINKS, flipped, write_gpt2
from strategies import SMALL, filled, small

from fuzz.editing import EditPatterns
from fuzz.mutating import (
    CELLS,
    SETTINGS,
    bytes_changed,
    json_changed,
    lines_changed,
    npy_changed,
    png_changed,
)
from vesalius.checkpoints.folders import read_config
from vesalius.checkpoints.inspection import inspect
from vesalius.errors import UnknownConfiguration
from vesalius.model import load_folder

Case = Callable[[], object]
TEXT = "I knew it was going to rain, but I forgot: 雨 café 🌧 don't\n\t42"


class Target(Protocol):
    """A kind of file, and its readers."""

    def __init__(self, folder: Path) -> None: ...
    def case(self, random: Random, place: Path) -> Case:
        """Write a damaged file, and say what reads it."""


@cache
def _models() -> list[tuple[bytes, bytes]]:
    """config.json and weights of every family, in each layout that it has."""
    made = []
    with TemporaryDirectory() as folder:
        for family in SMALL:
            model = filled(small(family), dtype="float32")
            for layout in ("vesalius", "huggingface"):
                place = Path(folder) / f"{family}-{layout}"
                try:
                    model.save(place, layout)
                except UnknownConfiguration:  # which has no such layout
                    continue
                names = ("config.json", "model.safetensors")
                config, weights = ((place / name).read_bytes() for name in names)
                made.append((config, weights))
    return made


def _put(place: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (place / name).write_bytes(data)


class Safetensors:
    """Weights whose bytes or whose header is damaged, beside a sound config.json."""

    def __init__(self, folder: Path) -> None:
        self.configs, self.weights = zip(*_models(), strict=True)

    def case(self, random: Random, place: Path) -> Case:
        number = random.randrange(len(self.weights))
        whole = self.weights[number]
        end = 8 + struct.unpack("<Q", whole[:8])[0]
        header, body = whole[8:end], whole[end:]
        match random.randrange(4):
            case 0:
                damaged = bytes_changed(random, whole, self.weights)
            case 1:
                header = bytes_changed(random, header)
                damaged = struct.pack("<Q", len(header)) + header + body
            case _:
                header = json_changed(random, json.loads(header))
                damaged = struct.pack("<Q", len(header)) + header + body
        _put(place, {"config.json": self.configs[number], "model.safetensors": damaged})
        return lambda: (inspect(place), load_folder(place).parameters, read_config(place))


class Configs:
    """Descriptions of models that say something else than their weights, or nothing sensible."""

    NAMES = ("config.json", "preprocessing.json", "model.safetensors.index.json")

    def __init__(self, folder: Path) -> None:
        self.configs = [json.loads(config) for config, _ in _models()]
        self.weights = [weights for _, weights in _models()]

    def case(self, random: Random, place: Path) -> Case:
        number = random.randrange(len(self.configs))
        said = self.configs[number]
        files = {"config.json": json.dumps(said).encode()}
        files["model.safetensors"] = self.weights[number]
        name = random.choice((self.NAMES[0], *self.NAMES))
        if name == self.NAMES[0]:
            files[name] = (
                json_changed(random, said, self.configs)
                if random.random() < 0.8
                else bytes_changed(random, files[name])
            )
        elif name == self.NAMES[1]:
            files[name] = json_changed(random, {"scaling": {"mean": [0.1], "deviation": [1.5]}})
        else:
            files["part.safetensors"] = files.pop("model.safetensors")
            names = {"embedding.weight": "part.safetensors", "norm.bias": "part.safetensors"}
            files[name] = json_changed(random, {"metadata": {}, "weight_map": names})
        _put(place, files)

        def read() -> None:
            from vesalius.counting import count

            inspect(place)
            count(read_config(place))
            _ = load_folder(place).parameters

        return read


def _tokenizers() -> Iterator[Any]:
    """Every kind that we make, and others that the library can describe."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers
    from tokenizers import pre_tokenizers as pre
    from tokenizers import processors as post

    from vesalius.tokenizers import (
        train_byte_pairs,
        train_characters,
        train_word_pieces,
        train_words,
    )

    texts = [TEXT, "it rained and rained, and it was going to"] * 3
    yield train_byte_pairs(texts, 300)._inner
    yield train_word_pieces(texts, 90)._inner
    yield train_characters(texts)._inner
    yield train_words(texts, 40)._inner
    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2, "a": 3, "b": 4, "ab": 5, "▁": 6}
    pairs = models.BPE(
        vocab=vocabulary, merges=[("a", "b")], unk_token="<unk>", dropout=0.1, byte_fallback=True
    )
    one = Tokenizer(pairs)
    one.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex("a+"), "a"), normalizers.Strip()]
    )
    one.pre_tokenizer = pre.Sequence(
        [pre.Metaspace(), pre.Split(Regex(r"\d+"), "isolated"), pre.Digits(), pre.Punctuation()]
    )
    one.post_processor = post.RobertaProcessing(("</s>", 1), ("<s>", 0))
    one.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Strip(" ", 1, 0)]
    )
    one.enable_truncation(3)
    one.enable_padding(length=5)
    one.add_special_tokens(["<s>", "</s>"])
    yield one
    two = Tokenizer(models.Unigram([(word, -float(i)) for word, i in vocabulary.items()], 2))
    two.normalizer = normalizers.Prepend("▁")
    two.pre_tokenizer = pre.UnicodeScripts()
    two.post_processor = post.Sequence(
        [
            post.ByteLevel(),
            post.TemplateProcessing(
                single="<s> $A </s>",
                pair="<s> $A </s>:1 $B:1",
                special_tokens=[("<s>", 0), ("</s>", 1)],
            ),
        ]
    )
    two.decoder = decoders.CTC()
    yield two
    prefixed = models.BPE(
        vocab={"a": 0, "#b": 1, "ab": 2}, merges=[("a", "#b")], continuing_subword_prefix="#"
    )
    three = Tokenizer(prefixed)
    three.pre_tokenizer = pre.FixedLength(length=4)
    three.decoder = decoders.Strip("a", 1, 1)
    said = json.loads(three.to_str())  # a real map is long; this one is refused, or crashes in use
    said["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "BAAAAGFiY2Q="}
    yield three
    yield said
    four = json.loads(one.to_str())  # each of these letters becomes a thousand million
    thousands = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
    four["normalizer"] = {"type": "Sequence", "normalizers": [thousands] * 3}
    yield four


class Tokenizers:
    """Tokenizers in all their files."""

    def __init__(self, folder: Path) -> None:
        self.whole = [
            made if isinstance(made, dict) else json.loads(made.to_str()) for made in _tokenizers()
        ]
        pairs, pieces = self.whole[0]["model"], self.whole[1]["model"]
        merges = "\n".join(
            "#version: 0.2" if not m else " ".join(m) for m in ["", *pairs["merges"]]
        )
        self.pairs = pairs["vocab"], merges
        self.pieces = "\n".join(sorted(pieces["vocab"], key=pieces["vocab"].get))

    def case(self, random: Random, place: Path) -> Case:
        match random.randrange(10):
            case 0:
                vocabulary, merges = self.pairs
                damaged = json_changed(random, vocabulary), merges.encode()
                if random.random() < 0.5:
                    said = json.dumps(vocabulary).encode()
                    damaged = said, lines_changed(random, merges, separators=" ")
                _put(place, dict(zip(("vocab.json", "merges.txt"), damaged, strict=True)))
            case 1:
                settings = {"do_lower_case": True, "strip_accents": None, "add_prefix_space": True}
                _put(place, {"tokenizer_config.json": json_changed(random, settings)})
                _put(place, {"vocab.txt": self.pieces.encode()})
                if random.random() < 0.7:
                    _put(place, {"vocab.txt": lines_changed(random, self.pieces, separators=" #")})
            case 2:
                data = json.dumps(random.choice(self.whole)).encode()
                _put(place, {"tokenizer.json": bytes_changed(random, data)})
            case _:
                data = json_changed(random, random.choice(self.whole), self.whole)
                _put(place, {"tokenizer.json": data})
        return lambda: _tokenize(place)


def _tokenize(place: Path) -> None:
    """All that a tokenizer can be asked."""
    from vesalius.errors import VesaliusError
    from vesalius.tokenizers import read_tokenizer

    found = read_tokenizer(place)
    if found is None:
        return
    asked: list[Case] = [
        lambda: found.encode(TEXT),
        lambda: found.encode(""),
        lambda: found.encode_many(["a", "ab a", ""], framed=False),
        lambda: found.encode_with_offsets("ab 12 AB"),
        lambda: found.encode_pair("a", "b"),
        lambda: found.decode([0, 1, 2, 3, 4, 5, 200]),
        lambda: [found.piece(i) + str(found.continues(i)) for i in (0, 1, 5, 39)],
        lambda: (found.special, found.size, found.rows),
        lambda: found.save(place / "saved"),
    ]
    refused = None
    for ask in asked:  # each, even where one is refused
        try:
            ask()
        except VesaliusError as error:
            refused = error
    if refused:
        raise refused


class Pickles:
    """Pickled weights, in both of PyTorch's formats, and pickles that would run something."""

    def __init__(self, folder: Path) -> None:
        import torch

        state = {name: torch.from_numpy(a) for name, a in filled(small("gpt2")).state.items()}
        mixed = {"a": torch.ones(2, 3), "b": torch.ones(4, dtype=torch.bfloat16), "c": state}
        shared = {
            "a": state["norm.bias"],
            "b": state["norm.bias"][1:],
            "c": torch.eye(3).to_sparse(),
        }
        parameter = {"p": torch.nn.Parameter(torch.ones(2)), "n": torch.tensor(3)}
        self.bombs = [*_bombs(pickle.dumps(state), "archive/data.pkl")]
        self.plain = [
            _saved(torch, value, zipped)
            for value in (state, mixed, shared, parameter, [state], state["norm.bias"])
            for zipped in (True, False)
        ]

    def case(self, random: Random, place: Path) -> Case:
        import torch

        canary = place / "executed"
        match random.randrange(5):
            case 0:
                data = _saved(torch, {"a": Payload(random, canary)}, random.random() < 0.5)
            case 1:
                data = _with_pickle(random.choice(self.plain[::2]), _payload(random, canary))
            case 2:
                data = bytes_changed(random, _payload(random, canary), self.plain)
            case _:
                data = bytes_changed(random, random.choice(self.plain), self.plain)
        if random.random() < 0.02:
            data = random.choice(self.bombs)
        _put(place, {"pytorch_model.bin": data})

        def read() -> None:
            from vesalius.checkpoints import pickled

            try:
                pickled.read(place / "pytorch_model.bin")
            finally:
                assert not canary.exists(), "a pickle was executed"

        return read


class Keras:
    """Keras's weights in HDF5, most of whose bits lead somewhere."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "x.weights.h5"
        write_gpt2(self.file)
        self.whole = self.file.read_bytes()

    def case(self, random: Random, place: Path) -> Case:
        file = place / "x.weights.h5"
        file.write_bytes(self.whole)
        match random.randrange(20):
            case 0:
                flipped(file, random.choice(list(FLIPS)))
            case 1:
                random.choice(list(LINKS.values()))(file)
            case 2 | 3 | 4:
                file.write_bytes(bytes_changed(random, self.whole))
            case _:
                changed = bytearray(self.whole)
                full = [at for at, byte in enumerate(changed) if byte]
                changed[random.choice(full)] ^= 1 << random.randrange(8)
                file.write_bytes(changed)

        def read() -> None:
            from vesalius.checkpoints.conversion import read_model

            _ = read_model(file).parameters

        return read


CALLS: dict[str, Callable[[Path], tuple[Any, ...]]] = {
    "os.system": lambda canary: (f"touch {canary}",),
    "builtins.exec": lambda canary: (f"open({str(canary)!r}, 'w')",),
    "builtins.eval": lambda canary: (f"open({str(canary)!r}, 'w')",),
    "builtins.open": lambda canary: (str(canary), "w"),
    "pathlib.Path.touch": lambda canary: (canary,),
    "subprocess.Popen": lambda canary: (["touch", str(canary)],),
    "os.mkdir": lambda canary: (str(canary),),
    "torch.save": lambda canary: ([1], str(canary)),
    "torch.hub.load": lambda canary: ("somebody/something", "model"),
    "torch.load": lambda canary: (str(canary),),
    "numpy.save": lambda canary: (str(canary), [1]),
    "torch.storage._load_from_bytes": lambda canary: (b"cos\nsystem\n(S'touch x'\ntR.",),
    "torch._utils._rebuild_tensor_v2": lambda canary: (None, 0, (2**40,), (1,), False, None),
    "torch.FloatStorage": lambda canary: (2**40,),
    "torch.zeros": lambda canary: (2**40,),
    "builtins.bytearray": lambda canary: (2**40,),
    "collections.OrderedDict": lambda canary: ([("a", 1)],),
}


class Payload:
    """Pickles as a call."""

    def __init__(self, random: Random, canary: Path) -> None:
        self.name = random.choice(list(CALLS))
        self.arguments = CALLS[self.name](canary)

    def __reduce__(self) -> Any:
        return _Named(self.name), self.arguments


class _Named:
    """Pickles as the global of a name, whatever that is here."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> str:
        raise AssertionError("written by hand below")

    def __call__(self) -> None: ...


class _Pickler(pickle._Pickler):  # the one in Python, whose globals can be written by hand
    def save(self, obj: Any, *more: Any, **named: Any) -> Any:
        if isinstance(obj, _Named):
            module, _, name = obj.name.rpartition(".")
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
            self.memoize(obj)
            return None
        return super().save(obj, *more, **named)


def _payload(random: Random, canary: Path) -> bytes:
    file = io.BytesIO()
    _Pickler(file, random.choice((2, 2, 0, 4))).dump({"a": Payload(random, canary)})
    return file.getvalue()


def _saved(torch: Any, value: Any, zipped: bool) -> bytes:
    class Module:
        """What ``torch.save`` asks of a module to pickle with."""

        Pickler, dumps, dump, HIGHEST_PROTOCOL = _Pickler, pickle.dumps, pickle.dump, 4

    file = io.BytesIO()
    torch.save(value, file, Module, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def _with_pickle(archive: bytes, instead: bytes) -> bytes:
    """One of PyTorch's archives, with another pickle inside."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, instead if name.endswith("data.pkl") else old.read(name))
    return file.getvalue()


class Recipes:
    """Recipes that say what cannot be, with settings changed on the command line too."""

    def __init__(self, folder: Path) -> None:
        root = Path(__file__).parents[2]
        found = [*root.glob("recipes/*.toml"), *root.glob("src/vesalius/**/*.toml")]
        self.seeds = [file.read_text() for file in sorted(found)]

    def case(self, random: Random, place: Path) -> Case:
        text = random.choice(self.seeds)
        data = lines_changed(random, text, SETTINGS, separators="= \n")
        _put(place, {"recipe.toml": data})
        keys = [line.partition(" =")[0] for line in text.split("\n") if " = " in line]
        section = random.choice(("", "model.", "data.", "training.", "x.", "."))
        changes = {section + random.choice(keys): random.choice(SETTINGS)}

        def read() -> None:
            from vesalius.training import read_recipe

            read_recipe(place / "recipe.toml", changes if len(data) % 3 == 0 else None)

        return read


TS = """# comment
@problemName Rain
@timeStamps false
@missing true
@univariate false
@dimensions 2
@equalLength false
@classLabel true dry wet
@data
1.5,2,?,4:0.1,0.2,0.3,0.4:dry
-1,1e3:NaN,7:wet
"""
CSV = """date,rain,wind,class
2024-01-01,1.5,3,dry
2024-01-02,2.5,4e2,wet
2024-01-03,-1,5,"wet"
2024-01-04,0,"6",dry
"""


class Series:
    """Time series in the archive's format and in tables."""

    def __init__(self, folder: Path) -> None:
        plain = TS.replace("@classLabel true dry wet", "@classLabel false")
        plain = plain.replace(":dry", "").replace(":wet", "")
        target = TS.replace("@classLabel true dry wet", "@targetLabel true")
        target = target.replace(":dry", ":0.5").replace(":wet", ":-2")
        self.ts, self.csv = [TS, plain, target], [CSV, CSV.replace("date,", "number,")]

    def case(self, random: Random, place: Path) -> Case:
        from vesalius.data import series

        if random.random() < 0.5:
            _put(place, {"x.ts": lines_changed(random, random.choice(self.ts))})
            return lambda: series.read_ts(place / "x.ts")
        _put(place, {"x.csv": lines_changed(random, random.choice(self.csv))})
        label = random.choice((None, "class"))
        if random.random() < 0.5:
            return lambda: series.read_tables(place / "x.csv", label)
        return lambda: series.read_csv(place / "x.csv", label=label)


DESCRIBED = (
    "|O",
    "<U1",
    ">f8",
    "<f2",
    "<M8[ns]",
    "V9",
    "[('a', '<i4')]",
    "True",
    "None",
    "-1",
    "()",
)
DESCRIBED = (*DESCRIBED, "9" * 20, "1" * 5000, "0", "(2, 3)", "descr", "__import__('os')", *CELLS)
"""What stands in the header of a .npy file, and does not."""


class Images:
    """Images as PNG and JPEG, as IDX files, compressed or not, and as arrays."""

    def __init__(self, folder: Path) -> None:
        from PIL import Image

        pixels = np.random.default_rng(7).integers(0, 256, (2, 6, 6), dtype=np.uint8)
        idx = b"\0\0\x08\x03" + struct.pack(">III", *pixels.shape) + pixels.tobytes()
        self.idx = [idx, gzip.compress(idx, mtime=0)]
        self.bomb = _bomb(b"\0\0\x08\x03" + struct.pack(">III", 2000, 1024, 1024))
        self.labels = b"\0\0\x08\x01" + struct.pack(">I", 2) + b"\1\2"
        grey = Image.fromarray(pixels[0])
        pictures = [grey, *(grey.convert(mode) for mode in ("RGB", "P", "1", "RGBA", "LA"))]
        self.png = [_drawn(picture, "PNG") for picture in pictures]
        self.png.append(_drawn(grey.convert("I;16"), "PNG"))
        turned = Image.Exif()
        turned[0x0112] = 6  # how the camera was held
        self.jpeg = [_drawn(picture, "JPEG", exif=turned) for picture in pictures[:2]]
        self.arrays = [_array(pixels), _array(pixels[:, None]), _array(pixels.astype(np.float32))]
        self.arrays.append(_array(pixels > 9, fortran=True))
        self.archives = []
        for save in (np.savez, np.savez_compressed):
            file = io.BytesIO()
            save(file, images=pixels, labels=np.array([1, 0]))
            self.archives.append(file.getvalue())
        self.bombs = [*_bombs(_array(np.zeros((20, 64, 1024, 1024), np.uint8)[:0]), "images.npy")]

    def case(self, random: Random, place: Path) -> Case:
        from vesalius.data.images import read_images
        from vesalius.data.pictures import read_picture

        kinds = {"x.png": self.png, "x.npy": self.arrays, "x.npz": self.archives}
        kinds["train-images-idx3-ubyte.gz"] = self.idx
        kinds["x.jpg"] = [*self.jpeg, *self.png]
        name = random.choice(list(kinds))
        every = [*self.png, *self.jpeg, *self.arrays, *self.archives, *self.idx]
        seeds = kinds[name] if random.random() < 0.95 else every
        _put(place, {name: bytes_changed(random, random.choice(seeds), every)})
        if name == "x.npy" and random.random() < 0.5:
            _put(place, {name: npy_changed(random, random.choice(self.arrays), DESCRIBED)})
        if name in ("x.png", "x.jpg") and random.random() < 0.4:
            _put(place, {name: png_changed(random, random.choice(self.png))})
        if name == "x.npz" and random.random() < 0.1:
            _put(place, {name: random.choice(self.bombs)})
        if name.endswith(".gz") and random.random() < 0.05:
            _put(place, {name: self.bomb})
        if name.endswith(".gz"):
            damaged = bytes_changed(random, self.labels) if random.random() < 0.3 else self.labels
            _put(place, {"train-labels-idx1-ubyte": damaged})
        if name == "x.jpg":
            channels = random.choice((1, 3))
            return lambda: read_picture(place / name, 6, channels)
        return lambda: read_images(place if name == "x.png" else place / name)


def _bomb(head: bytes) -> bytes:
    """Two gigabytes of zeros after a head, as gzip writes them: two megabytes."""
    packing = zlib.compressobj(wbits=31)
    begins = packing.compress(head) + packing.flush(zlib.Z_FULL_FLUSH)
    zeros = packing.compress(bytes(2**20)) + packing.flush(zlib.Z_FULL_FLUSH)
    return begins + 2000 * zeros + packing.flush()


def _bombs(head: bytes, name: str) -> Iterator[bytes]:
    """Archives of two gigabytes of zeros after a head: one that says so, and one that does not."""
    expands = _bomb(head)
    size = len(head) + 2000 * 2**20
    packed = expands[10:-8]  # without what gzip puts around
    for said in (size, len(head)):
        entry = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(packed), said, len(name), 0)
        local = b"PK\3\4" + entry + name.encode() + packed
        listed = b"PK\1\2" + struct.pack("<H", 20) + entry + struct.pack("<HHHII", 0, 0, 0, 0, 0)
        listed += name.encode()
        counts = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(listed), len(local), 0)
        yield local + listed + b"PK\5\6" + counts


def _drawn(picture: Any, kind: str, **more: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **more)
    return file.getvalue()


def _array(values: Any, fortran: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asfortranarray(values) if fortran else values)
    return file.getvalue()


class Traces:
    """Saved traces: the values, or what is said of them."""

    def __init__(self, folder: Path) -> None:
        from vesalius.traces.dissection import dissect

        self.seeds = []
        for family in ("gpt2", "lstm", "bert"):
            file = folder / f"{family}.safetensors"
            dissect(filled(small(family), dtype="float32"), [1, 2, 3]).save(file)
            said = Path(f"{file}.json").read_bytes()
            self.seeds.append((file.read_bytes(), said))

    def case(self, random: Random, place: Path) -> Case:
        values, said = random.choice(self.seeds)
        match random.randrange(6):
            case 0:
                values = bytes_changed(random, values[:2000]) + values[2000:]
            case 1:
                said = bytes_changed(random, said)
            case _:
                others = [json.loads(other) for _, other in self.seeds]
                said = json_changed(random, json.loads(said), others)
        _put(place, {"x.safetensors": values, "x.safetensors.json": said})

        def read() -> None:
            from vesalius.traces.trace import read_trace

            trace = read_trace(place / "x.safetensors")
            trace.summaries()
            trace.tokens()
            trace.likeliest(3)
            trace.to_json()
            repr(trace)
            trace.save(place / "again.safetensors")

        return read


TARGETS: dict[str, type[Target]] = {
    "safetensors": Safetensors,
    "configs": Configs,
    "tokenizers": Tokenizers,
    "pickles": Pickles,
    "keras": Keras,
    "recipes": Recipes,
    "series": Series,
    "images": Images,
    "traces": Traces,
    "edits": EditPatterns,
}
