"""The table of strategies: how a recipe trains the model that it starts from."""

from vesalius.errors import UnknownSetting, nearest
from vesalius.training.strategies.features import Features
from vesalius.training.strategies.lora import LoRA
from vesalius.training.strategies.partial import Partial
from vesalius.training.strategies.strategy import Strategy as Strategy

STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy for strategy in (Strategy, Partial, LoRA, Features)
}
SETTINGS: dict[str, list[str]] = {
    setting: [name for name, strategy in STRATEGIES.items() if setting in strategy.settings]
    for every in STRATEGIES.values()
    for setting in every.settings
}
"""Settings of ``[training]`` that only some strategies read, and which."""


def strategy_named(name: str | None) -> type[Strategy]:
    """A strategy by its name; without one, all weights are trained."""
    if name is not None and name not in STRATEGIES:
        raise UnknownSetting(f"unknown strategy {name!r}; {nearest(name, STRATEGIES)}")
    return Strategy if name is None else STRATEGIES[name]
