"""Features: the model is frozen and run once, and a linear model is fitted to what it gives.

What the head reads is kept in the cache, by the weights that made it and the examples they read.
The fit is scikit-learn's; its coefficients become the weights of the head, so that a plain model
remains.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray as Array

from vesalius.checkpoints import files
from vesalius.data.batches import Batch, TwoParts
from vesalius.data.masking import IGNORED
from vesalius.errors import ImpossibleSetting, VesaliusError, WrongKind
from vesalius.families.config import Config
from vesalius.machine import not_kept, require, usable_cache
from vesalius.tasks import all_tasks
from vesalius.tasks.objective import Objective
from vesalius.training.settings import Training
from vesalius.training.strategies.probing import FITS, Part
from vesalius.training.strategies.strategy import Strategy

if TYPE_CHECKING:
    from torch.nn import Module

    from vesalius.training.loop import Run


class Features(Strategy):
    """A linear head on frozen features: logistic regression, or ridge regression of values."""

    name = "features"
    title = "the linear head alone, by scikit-learn, on features that are computed once"
    settings = ()

    @classmethod
    def require(cls, training: Training, objective: Objective) -> None:
        super().require(training, objective)
        if not objective.linear_head:
            able = ", ".join(task.name for task in all_tasks() if task.learns.linear_head)
            raise WrongKind(f"strategy features is for {able}, not for {objective.name}")
        require("sklearn")

    @classmethod
    def trains(cls, training: Training) -> Training:
        """One step, which is the fit."""
        return training.change(steps=1)

    def prepare(self, network: Module, config: Config, new: list[str]) -> None:
        head = f"{self.objective.linear_head}."
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(name.startswith(head))

    def fit(self, run: Run) -> dict[str, float]:
        import torch

        if run.processes.count > 1:
            raise ImpossibleSetting("strategy features runs in one process; leave out torchrun")
        assert isinstance(run.batches, TwoParts), "labelled examples are in two parts"
        train, valid = self._part(run, run.batches.once), self._part(run, run.batches.valid)
        head: Any = run.network.get_submodule(self.objective.linear_head)
        fitted = FITS[self.objective.fitted_to](
            train, valid, len(head.weight), head.bias is not None
        )
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(fitted.weight))
            if head.bias is not None:
                head.bias.copy_(torch.from_numpy(fitted.bias))
        self.valid = valid
        loss = self._means(run, train)["loss"]
        told = {"loss": loss, "rate": 0.0, "norm": 0.0, "penalty": fitted.penalty}
        return {**told, "examples": len(train.answers)}

    def means(self, run: Run) -> dict[str, float]:
        return self._means(run, self.valid)

    def _means(self, run: Run, part: Part) -> dict[str, float]:
        """What ``Objective.means`` would give, from features that are known."""
        import torch

        head = run.network.get_submodule(self.objective.linear_head)
        with torch.no_grad():
            found = head(torch.from_numpy(part.features).to(run.device))
        answers = torch.from_numpy(part.answers).to(run.device)
        sums = self.objective.answered(found, answers)
        means = {name: total.item() / len(part.answers) for name, total in sums.items()}
        return {"loss": means[self.objective.losses[0]], **means}

    # Features ----------------------------------------------------------------

    def _part(self, run: Run, batches: Any) -> Part:
        """The features of some batches, from the cache or by running the network."""
        cache, key = usable_cache(), self._key(run, batches())
        file = None if cache is None else cache / "features" / f"{key}.safetensors"
        if file is not None and file.exists():
            with suppress(VesaliusError, OSError, KeyError):  # or it is damaged, and made anew
                found = files.read(file).arrays
                return Part(np.array(found["features"]), np.array(found["answers"]))
        rows = list(self._read(run, batches()))
        made = Part(*(np.concatenate(one) for one in zip(*rows, strict=True)))
        if file is not None:
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                files.write(file, {"features": made.features, "answers": made.answers})
            except OSError as error:
                not_kept("features", file.parent, error)
        return made

    def _key(self, run: Run, batches: Iterator[Batch]) -> str:
        """All that features follow from: the weights below the head, and what they are to read."""
        head = f"{self.objective.linear_head}."
        digest = hashlib.sha256(f"{self.objective.name} {run.config}".encode())
        weights = ((k, v.cpu().numpy()) for k, v in run.network.state_dict().items())
        frozen = ((name, array) for name, array in weights if not name.startswith(head))
        read = itertools.chain.from_iterable(batch.items() for batch in batches)
        for name, array in itertools.chain(frozen, read):
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:32]

    def _read(self, run: Run, batches: Iterator[Batch]) -> Iterator[tuple[Array, Array]]:
        """What the head reads of each example, and the example's answer."""
        import torch

        from vesalius.tasks.objective import tensors

        seen: list[Any] = []
        head = run.network.get_submodule(self.objective.linear_head)
        hook = head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        run.network.eval()
        try:
            for batch in batches:
                with torch.no_grad():
                    self.objective.sums(run.network, tensors(batch, slice(None), run.device), None)
                read = seen.pop().float().cpu().numpy()
                features = read.reshape(-1, read.shape[-1])
                answers = batch[self.objective.answers]
                answers = answers.reshape(len(features), *answers.shape[read.ndim - 1 :])
                # Tokens are examples too; some of them have no class.
                known = answers != IGNORED if answers.ndim == 1 else slice(None)
                yield features[known], answers[known]
        finally:
            hook.remove()
