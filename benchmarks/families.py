"""How near rnn, lstm and ffnn come to their bound, with models that are larger than the cache."""

import statistics
import time
from dataclasses import dataclass, field
from functools import partial

from reading import Reading, weight_bytes

import vesalius as vs
from vesalius.model import Model

MODELS = {
    "rnn": {"vocabulary": 50257, "embedding": 1024, "layers": 4},
    "lstm": {"vocabulary": 50257, "embedding": 1024, "layers": 4},
    "ffnn": {"vocabulary": 50257, "embedding": 256, "hidden": 1024, "context": 8},
}
PROMPT = [11, 22, 33, 44]


@dataclass
class Family:
    label: str
    precision: str
    needed: float
    """Bytes of weights that a token needs."""
    new: int
    taken: list[float] = field(default_factory=list)
    """Seconds of each turn, and bytes per second that the machine read around it."""
    bandwidths: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        return self.new / statistics.median(self.taken)

    @property
    def shares(self) -> list[float]:
        """How much of its bound each turn reached; the prompt is in the time."""
        turns = zip(self.taken, self.bandwidths, strict=True)
        return [self.needed * self.new / (seconds * read) for seconds, read in turns]


def measure_families(reading: Reading, rounds: int, threads: int, new: int) -> list[Family]:
    measured = []
    for name, settings in MODELS.items():
        print(f"{name}, {rounds} rounds", flush=True)
        model = vs.create(name, **settings)
        said = ", ".join(f"{key} {value}" for key, value in settings.items())
        for precision in ("float32", "int8"):
            family = Family(f"{name}, {said}", precision, weight_bytes(model)[precision], new)
            measured.append(family)
            turn = partial(_turn, model, precision, threads, new)
            turn()  # packs the weights
            for _ in range(rounds):
                seconds, read = reading.around(turn)
                family.taken.append(seconds)
                family.bandwidths.append(read)
    return measured


def _turn(model: Model, precision: str, threads: int, new: int) -> float:
    start = time.perf_counter()
    vs.generate(model, PROMPT, new, temperature=0, dtype=precision, threads=threads)
    return time.perf_counter() - start
