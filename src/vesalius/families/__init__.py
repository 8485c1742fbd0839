"""The families of models: the one table that everything else asks.

A family is a module here, or in another package that names it in the entry point group
``vesalius.families``; its row says all there is to know of it. Nothing here needs torch.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vesalius import arguments
from vesalius.errors import ImpossibleSetting, UnknownModel, nearest
from vesalius.families import (
    bert,
    ffnn,
    gpt2,
    igpt,
    lstm,
    patchtst,
    rnn,
    transformer,
    tst,
    vit,
)
from vesalius.families.config import Config, Setting
from vesalius.families.family import Family as Family
from vesalius.families.family import Size
from vesalius.families.plugins import with_added

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from vesalius.equations.parameters import Array, ParameterSet

MODULES = (ffnn, rnn, lstm, transformer, gpt2, bert, vit, igpt, tst, patchtst)
OURS: tuple[Family, ...] = tuple(module.FAMILY for module in MODULES)
OUR_NAMES = frozenset(
    name
    for family in OURS
    for size, known in family.sizes.items()
    for name in (family.name, size, *known.aliases)
)
"""For these no other package is looked at, which would take a while."""
GROUP = "vesalius.families"
T = TypeVar("T")


@cache
def all_families() -> tuple[Family, ...]:
    """Ours, and those of other packages."""
    return with_added(GROUP, Family, OURS)


class Gathered(Mapping[str, T], Generic[T]):
    """What families give under names; other packages are asked about names that are not ours."""

    def __init__(self, given: Callable[[Family], Mapping[str, T]]) -> None:
        self._given = given

    @cache  # noqa: B019 (there are four, as long as the process lives)
    def _of(self, families: tuple[Family, ...]) -> dict[str, T]:
        return {name: value for family in families for name, value in self._given(family).items()}

    def __getitem__(self, name: str) -> T:
        return self._of(OURS if name in OUR_NAMES else all_families())[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of(all_families()))

    def __len__(self) -> int:
        return len(self._of(all_families()))

    __hash__ = object.__hash__


def _hub_names(family: Family) -> dict[str, str]:
    return {
        known: size.hub
        for name, size in family.sizes.items()
        if size.hub is not None
        for known in (name, *size.aliases)
        if "/" not in known
    }


FAMILIES: Gathered[Family] = Gathered(lambda family: {family.name: family})
SIZES: Gathered[Size] = Gathered(lambda family: family.sizes)
FAMILY_OF_SIZE: Gathered[Family] = Gathered(lambda family: dict.fromkeys(family.sizes, family))
ALIASES: Gathered[str] = Gathered(
    lambda family: {a: name for name, size in family.sizes.items() for a in size.aliases}
)
"""Other names of sizes, with their organisation and without."""
HUB_NAMES: Gathered[str] = Gathered(_hub_names)
"""What Hugging Face calls a size that is named without its organisation."""


def names() -> list[str]:
    """Every name that ``configuration`` knows, without the aliases."""
    return [*SIZES, *(name for name in FAMILIES if name not in SIZES)]


def configuration(name: str, **changes: Setting) -> Config:
    """The configuration of a named size, or a family's default, with some settings changed."""
    name = ALIASES.get(arguments.text("the model's name", name), name)
    if name in SIZES:
        default = FAMILY_OF_SIZE[name].config()
        return default.change(**SIZES[name].settings).change(**changes)
    if name in FAMILIES:
        return FAMILIES[name].config().change(**changes)
    raise UnknownModel(f"unknown model {name!r}; {nearest(name, [*names(), *ALIASES])}")


def family_of(config: Config) -> Family:
    """The row that a configuration belongs to."""
    for family in OURS:
        if family.config is type(config):
            return family
    return next(family for family in all_families() if family.config is type(config))


def assemble(
    config: Config, fetch: Callable[[str, tuple[int, ...]], "Array"], **symbols: Any
) -> "ParameterSet":
    """The parameter set of a configuration, its arrays fetched by name and shape.

    ``symbols`` stand in for the configuration's own.
    """
    from vesalius.equations.activations import ACTIVATIONS
    from vesalius.equations.parameters import assemble as assemble_set

    symbols = config.symbols() | symbols
    symbols["g"] = ACTIVATIONS.get(symbols.get("activation", ""))
    made: ParameterSet = assemble_set(family_of(config).parameters.get(), symbols, fetch)
    return made


def shapes(config: Config, **symbols: Any) -> dict[str, tuple[int, ...]]:
    """The name and shape of every array of a configuration's parameter set; none is made."""
    import numpy as np

    found: dict[str, tuple[int, ...]] = {}

    def note(name: str, shape: tuple[int, ...]) -> "Array":
        found[name] = shape
        try:
            return np.broadcast_to(np.float32(0), shape)
        except ValueError as error:
            raise ImpossibleSetting(f"{name} of {shape} is beyond any memory") from error

    assemble(config, note, **symbols)
    return found


def random_parameters(config: Config, seed: int, dtype: "DTypeLike" = "float64") -> "ParameterSet":
    """A parameter set of random numbers: small, variances positive, gains around one."""
    import numpy as np

    rng = np.random.default_rng(seed)

    def fetch(name: str, shape: tuple[int, ...]) -> "Array":
        letter = name.rpartition(".")[2]
        if letter == "variance":
            return rng.uniform(0.5, 2, shape).astype(dtype)
        centre = 1.0 if letter == "alpha" else 0.0
        return rng.normal(centre, 1 / np.sqrt(max(shape)), shape).astype(dtype)

    return assemble(config, fetch)
