"""What the weights of a folder hold, beside what the formula of its configuration says.

Only headers are read. Weights that are absent, pickled or damaged are said to be that.
"""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vesalius.checkpoints import files, fitting, plain
from vesalius.checkpoints.fitting import Difference
from vesalius.errors import VesaliusError
from vesalius.families.config import Config


@dataclass(frozen=True)
class Held:
    """The numbers in a folder's weights."""

    files: tuple[str, ...]
    tensors: int
    total: int
    """All numbers in all tensors, trained or not."""
    bytes: int
    dtypes: dict[str, int]
    """How many numbers the files hold in each precision."""
    differences: tuple[Difference, ...]
    """Their ``numbers`` add up to ``total`` less what the formula counts."""
    problem: str = ""
    """Why nothing could be read."""

    @property
    def fits(self) -> bool:
        """Whether the weights are those of the configuration, so that the model loads."""
        return not self.problem and all(difference.harmless for difference in self.differences)

    def lines(self, formula: int) -> list[str]:
        """The same in words; ``formula`` is what the formula counts."""
        if self.problem:
            return [f"Counted by config.json alone: {self.problem}"]
        many = f"{len(self.files)} files" if len(self.files) > 1 else self.files[0]
        precisions = " and ".join(
            dtype if len(self.dtypes) == 1 else f"{numbers:,} in {dtype}"
            for dtype, numbers in self.dtypes.items()
        )
        more = self.total - formula
        verdict = "as the formula says" if not more else f"{abs(more):,} {_than(more)} the formula"
        said = f"{many}: {self.total:,} numbers in {self.tensors} tensors, {precisions}; {verdict}"
        grouped = fitting.grouped(self.differences)
        width = max((len(f"{n:+,}") for _, n in grouped), default=0)
        return [said, *(f"{f'{n:+,}':>{width}}  {words}" for words, n in grouped)]

    def to_json(self) -> dict[str, Any]:
        differences = [difference.to_json() for difference in self.differences]
        return {**self.__dict__, "differences": differences, "fits": self.fits}


def _than(more: int) -> str:
    return "more than" if more > 0 else "fewer than"


def held(folder: Path, config: Config) -> Held:
    """What a folder holds for this configuration."""
    try:
        stored = files.headers(folder)
        if not stored:
            raise files.without_weights(folder)
    except VesaliusError as error:
        return Held((), 0, 0, 0, {}, (), str(error))
    own = "vesalius" in plain.read_json(folder / "config.json")
    dtypes: Counter[str] = Counter()
    for tensor in stored:
        dtypes[tensor.dtype] += tensor.size
    found = fitting.fit(config, own, {tensor.name: tensor.shape for tensor in stored})
    return Held(
        tuple(sorted({tensor.file for tensor in stored})),
        len(stored),
        sum(math.prod(tensor.shape) for tensor in stored),
        sum(tensor.nbytes for tensor in stored),
        dict(dtypes),
        found.differences,
    )
