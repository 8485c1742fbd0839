"""The tensors of a network under the paper's names, each with the shape that its step has.

Networks are watched from outside, by hooks. What a fused kernel keeps to itself is computed step by
step here: the scores of attention (25, 26) and the gates of recurrent layers (41, 44 to 48).
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from vesalius.equations.parameters import Array
from vesalius.families import family_of
from vesalius.model import Model, require_shared
from vesalius.models.labels import results
from vesalius.models.recurrent import Keep, State
from vesalius.traces.trace import Trace
from vesalius.verification.peers import batch_of

View = Callable[[Tensor], Tensor]
"""How the paper sees a tensor of the network."""
DISTRIBUTIONS = {"Z": "Y_hat", "z": "y_hat", "z_C": "y_hat_C"}
"""Logits, and their softmax, which the networks leave to the loss."""


@dataclass(frozen=True)
class Watched:
    """A tensor of the network, and the step that it holds or is a part of."""

    tensor: Tensor
    view: View

    @property
    def value(self) -> Tensor:
        """The step in the paper's shape."""
        return self.view(self.tensor)

    @property
    def gradient(self) -> Array | None:
        """The gradient in the paper's shape, after a backward pass that came by."""
        grad = self.tensor.grad
        return None if grad is None else self.view(grad).numpy().copy()


def watch(model: Model, trace: Trace, real: Array | None = None) -> dict[str, Watched]:
    """Run a model's network on what a trace was made of, and keep its steps for gradients.

    ``real`` are the time steps of a series at which anything is known. The network is one of its
    own, on the same weights: nothing of the model changes, and no gradient of a weight is computed.
    """
    require_shared(model)
    network = Model(model.config, model.state).network.requires_grad_(False)
    kept = _Kept(trace.names())
    with torch.enable_grad(), _tapped(model, network, kept) as stack:
        if model.config.attends:
            stack.enter_context(_Attention(kept, fused=False))
        else:
            stack.enter_context(_recurrence(network, kept))
        _outputs(model, results(network, *_input(model, trace, real)), kept)
    return kept.found


def observe(model: Model, given: Array) -> dict[str, Array]:
    """The steps that a model's network computes from an input, with its fused kernels."""
    kept, network = _Recorded(), model.network
    with torch.no_grad(), _tapped(model, network, kept) as stack:
        if model.config.attends:
            stack.enter_context(_Attention(kept, fused=True))
        _outputs(model, results(network, batch_of(model, given)), kept)
    return kept.values


@contextmanager
def _tapped(model: Model, network: nn.Module, kept: "_Kept") -> Iterator[ExitStack]:
    """Watch the modules of a network as long as the context is open."""
    with ExitStack() as stack:
        for hook in _hooks(model, network, kept):
            stack.callback(hook.remove)
        yield stack


def outputs(model: Model, result: Any) -> dict[str, Tensor]:
    """What a network gives, under the names of the equations that give it."""
    named = family_of(model.config).outputs(model.config)
    values = {symbol: getattr(result, part) if part else result for symbol, part in named.items()}
    return {symbol: value for symbol, value in values.items() if value is not None}


def _outputs(model: Model, result: Any, kept: "_Kept") -> None:
    for symbol, value in outputs(model, result).items():
        kept(symbol, value)
        if symbol in DISTRIBUTIONS:
            kept(DISTRIBUTIONS[symbol], value.softmax(-1))


def backward(step: Watched, cells: Iterable[tuple[tuple[int, ...], float]]) -> None:
    """Find the gradient of a weighted sum of cells at all that is watched."""
    with torch.enable_grad():
        value = step.value
        total = torch.stack([weight * value[cell] for cell, weight in cells]).sum()
        total.backward()  # type: ignore[no-untyped-call]


def _input(model: Model, trace: Trace, real: Array | None) -> list[Tensor]:
    """One input as a batch, with the segments of a pair; a series is padded as in the equations."""
    given, segments = trace.graph.given, trace.graph.segments
    assert given is not None
    if family_of(model.config).reads != "series":
        return [batch_of(model, given), *([] if segments is None else [torch.tensor([segments])])]
    if "Omega" not in trace:
        return [batch_of(model, given), *([] if real is None else [torch.tensor(real[None])])]
    padded, n = trace["Omega"], given.shape[1]
    known = np.ones(n, dtype=bool) if real is None else real
    known = np.pad(known, (0, padded.shape[1] - n))
    return [batch_of(model, padded), torch.tensor(known[None])]


def columns(tensor: Tensor) -> Tensor:
    """The only input of a batch, with a column for each token; a vector where there are none.

    Where channels are rows of their own, the tokens of one follow those of the other.
    """
    return tensor[0] if tensor.dim() == 2 else tensor.flatten(0, -2).T


class _Kept:
    """Where tensors are kept whose steps are wanted."""

    def __init__(self, wanted: Collection[str]) -> None:
        self.wanted, self.found = set(wanted), dict[str, Watched]()

    def __call__(self, name: str, tensor: Tensor, view: View = columns) -> Tensor:
        if name in self.wanted:
            if not tensor.requires_grad:
                tensor.requires_grad_()
            tensor.retain_grad()
            self.found[name] = Watched(tensor, view)
        return tensor

    def at(self, place: str) -> Keep:
        """Keep tensors by their symbols at this place."""
        return lambda symbol, tensor: self(symbol + place, tensor)

    def heads(self, name: str, many: int, tensor: Tensor) -> None:
        """All heads side by side: rows are tokens."""
        wide = tensor.shape[-1] // many
        for m in range(many):
            self(name.replace(",m]", f",{m + 1}]"), tensor, _head(m * wide, wide))


class _Recorded(_Kept):
    """Where the values of all steps are kept as arrays."""

    def __init__(self) -> None:
        super().__init__(())
        self.values: dict[str, Array] = {}

    def __call__(self, name: str, tensor: Tensor, view: View = columns) -> Tensor:
        self.values[name] = view(tensor.detach()).numpy()
        return tensor


def _head(start: int, wide: int) -> View:
    return lambda tensor: tensor.flatten(0, -2)[:, start : start + wide]


def _scores(m: int) -> View:
    return lambda tensor: tensor[0, m] if len(tensor) == 1 else torch.block_diag(*tensor[:, m])  # type: ignore[no-untyped-call]


def _hooks(model: Model, network: nn.Module, kept: _Kept) -> Iterator[Any]:
    """Watch the modules that hold steps, by the table of the family."""
    s = model.config.symbols()
    for row in family_of(model.config).steps(model.config):
        tap = row.tap
        if tap is None or tap.view == "scores":
            continue
        for l in range(s["L"] if "{l}" in tap.module else 1):
            name = row.name.replace("[l", f"[{l + 1}")
            keep = (
                partial(kept.heads, name, s["M"])
                if tap.view == "heads"
                else (partial(_keep, kept, name, VIEWS[tap.view]))
            )
            module = network.get_submodule(tap.module.format(l=l))
            yield _hook(module, keep if tap.call is None else _only(tap.call, keep), tap.before)


VIEWS: dict[str, View] = {"columns": columns, "transposed": torch.t, "flat": torch.flatten}
"""How steps are seen in tensors, besides those of heads."""


def _keep(kept: _Kept, name: str, view: View, tensor: Tensor) -> None:
    kept(name, tensor, view)


def _only(call: int, keep: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """Hand on one call of several."""
    calls = count()
    return lambda tensor: keep(tensor) if next(calls) == call else None


def _hook(module: nn.Module, keep: Callable[[Tensor], Any], before: bool) -> Any:
    """Hand on what a module gives, or what it is given."""

    def given(_module: Any, inputs: tuple[Tensor, ...]) -> None:
        keep(inputs[0])

    def gives(_module: Any, _inputs: Any, result: Tensor) -> None:
        keep(result)

    if before:
        return module.register_forward_pre_hook(given)
    return module.register_forward_hook(gives)


class _Attention(TorchFunctionMode):
    """Beside fused attention (28) its scores (25); unless ``fused``, also in place of it (26)."""

    def __init__(self, kept: _Kept, fused: bool) -> None:
        super().__init__()
        self.kept, self.fused, self.layers = kept, fused, count(1)

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is F.scaled_dot_product_attention:
            attended = self.attend(*args, **(kwargs or {}))
            if not self.fused:
                return attended
        return function(*args, **(kwargs or {}))

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
    ) -> Tensor:
        assert dropout_p == 0
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        seen = torch.ones_like(scores, dtype=torch.bool).tril() if is_causal else attn_mask
        if seen is not None:
            scores = scores.masked_fill(~seen, -math.inf)
        mu, l = scores.softmax(-1), next(self.layers)
        for m in range(mu.shape[1]):
            self.kept(f"mu[{l},{m + 1}]", mu, _scores(m))
        return mu @ v


@contextmanager
def _recurrence(network: Any, kept: _Kept) -> Iterator[None]:
    """In place of a fused recurrent kernel, one time step of one layer after the other.

    The kernel stays where a network does not say its ``time_step``.
    """
    step = getattr(network, "time_step", None)
    if step is None:
        yield
        return

    def run(x: Tensor, state: State) -> tuple[Tensor, State]:
        for l, layer in enumerate(network.layers, 1):
            before, outputs = tuple(part[l - 1] for part in state), []
            for i in range(x.shape[1]):
                before = step(layer, x[:, i], before, kept.at(f"[{l},{i + 1}]"))
                outputs.append(before[0])
            x = torch.stack(outputs, dim=1)
        return x, state

    network.__dict__["run"] = run  # before the class's own
    try:
        yield
    finally:
        del network.__dict__["run"]
