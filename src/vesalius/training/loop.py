"""The training loop: one for every family and objective.

All random numbers of a run follow from its recipe's seed and the step: a run that is resumed gives
the same weights as one that never stopped. Callbacks hear of every step.
"""

import json
import math
import platform
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vesalius import __version__, arguments
from vesalius.arguments import Progress, silent
from vesalius.checkpoints import files
from vesalius.checkpoints.plain import read_json
from vesalius.data.batches import Batch
from vesalius.errors import AnotherRecipe, ImpossibleSetting, LossNotFinite, NoRun
from vesalius.families import family_of
from vesalius.machine import processor, quick_bfloat16
from vesalius.model import Model, load
from vesalius.tasks.objective import State, tensors
from vesalius.training import state as stored
from vesalius.training.allocator import keep_freed_memory
from vesalius.training.callbacks import METRICS, Callback, Curves, MetricsFile, TensorBoard
from vesalius.training.checkpointing import CHECKPOINTS, POSITION, Checkpoints, locked
from vesalius.training.initialisation import Setup, freeze, network
from vesalius.training.optimisers import clip_gradients, optimiser
from vesalius.training.processes import Processes, gather_state, local_state
from vesalius.training.recipe import differences, read_recipe
from vesalius.training.recipe import recipe as read
from vesalius.training.samples import sample
from vesalius.training.scheduler import learning_rate
from vesalius.training.settings import Recipe
from vesalius.training.signals import signals
from vesalius.training.strategies import strategy_named
from vesalius.training.strategies.strategy import training_mode

OPTIMISER, STATE = "optimiser.safetensors", "state.safetensors"
SNAPSHOTS = "snapshots"
"""The run's folder of models along its way, each named after its step."""
COUNTS = ("examples", "tokens")
"""What a step goes through, told by the second."""


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    folder: Path
    step: int
    reason: str
    """finished, patience (early stopping), or the signal that stopped it."""
    valid: dict[str, float]
    """The last validation."""

    @property
    def model(self) -> Model:
        return load(self.folder / "model")


def train(
    recipe: Recipe | str | Path,
    folder: str | Path,
    *,
    resume: bool = False,
    changes: Mapping[str, str] | None = None,
    callbacks: Iterable[Callback] = (),
    progress: Progress | None = None,
) -> Outcome:
    """Train by a recipe in a folder of the run's own; ``resume`` goes on where it stopped."""
    folder = Path(arguments.path("folder", folder))
    callbacks = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    if strange := [one for one in callbacks if not isinstance(one, Callback)]:
        raise arguments.wrong("callbacks", "instances of Callback", strange[0])
    arguments.callback("progress", progress)
    if not isinstance(changes, Mapping | None):
        raise arguments.wrong(
            "changes", "settings by name, as in {'training.steps': '200'}", changes
        )
    if not isinstance(recipe, Recipe):
        recipe = read_recipe(arguments.path("recipe", recipe), changes)
    elif changes:
        recipe = read(recipe.to_json(), changes)
    if resume and not any((folder / name).exists() for name in (METRICS, CHECKPOINTS)):
        raise NoRun(f"{folder} holds no run to go on with; to begin one, leave out --resume")
    return run(recipe, folder, resume, callbacks, progress)


def run(
    recipe: Recipe,
    folder: Path,
    resume: bool,
    callbacks: list[Callback],
    progress: Progress | None = None,
    setup: Setup | None = None,
) -> Outcome:
    """As ``train``; ``setup`` is what the recipe needs, where that is there already."""
    board = [TensorBoard()] if recipe.training.tensorboard else []
    with (
        Processes(recipe.training.parallel) as processes,
        keep_freed_memory(),
        ExitStack() as stack,
    ):
        if processes.first:
            stack.enter_context(locked(folder))
        told = [MetricsFile(), *board, Curves(), *callbacks] if processes.first else []
        # The run is freed before the process group: DDP needs the group for that.
        return Run(recipe, folder, processes, resume, progress, setup).go(told)


class Run:
    """One training run: its data, network and optimiser, and the step it is at."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        processes: Processes,
        resume: bool,
        progress: Progress | None = None,
        setup: Setup | None = None,
    ) -> None:
        self.recipe, self.folder, self.processes = recipe, folder, processes
        self.settings = recipe.training
        self.checkpoints = Checkpoints(folder, self.settings.keep)
        found = self._found(resume)
        with processes.rank_zero_first():  # it makes what the others find in the cache
            setup = setup or Setup.of(recipe, progress or silent)
        self.objective, self.source, started = setup.objective, setup.source, setup.started
        self.config, self.batches = setup.config, setup.batches
        self.generation_config = started.generation_config if started else None
        self.family = family_of(self.config).name
        fresh, self.new = network(self.config, recipe.seed, started)
        freeze(fresh, self.objective)
        self.strategy = strategy_named(recipe.strategy)(recipe, self.objective)
        self.strategy.prepare(fresh, self.config, self.new)
        shares = self.strategy.shares(fresh, self.config)
        self.network = processes.share(fresh.eval().to(processes.device))
        self.optimiser = optimiser(self.network, self.settings, shares)
        quickest = "bfloat16" if quick_bfloat16() else "float32"
        asked = recipe.training.precision
        self.precision = quickest if asked == "fastest" else asked
        self.stepping: Any = torch.compile(self.network) if self.settings.compile else self.network
        self.step, self.seconds = 0, 0.0
        self.state: State = None
        self.best: tuple[int, float] = (0, math.inf)
        self.valid: dict[str, float] = {}
        self._stop = ""
        if found is not None:
            self._restore(found)

    def go(self, callbacks: list[Callback]) -> Outcome:
        """Step until the end, or until told to stop; then save."""
        for callback in callbacks:
            callback.begins(self)
        try:
            reason = self._go(callbacks)
        except BaseException as error:
            for callback in callbacks:
                with suppress(Exception):  # the first error is the one to raise
                    callback.ends(self, type(error).__name__)
            raise
        for callback in callbacks:
            callback.ends(self, reason)
        return Outcome(self.folder, self.step, reason, self.valid)

    def _go(self, callbacks: list[Callback]) -> str:
        settings = self.settings
        reason = "patience" if self._exhausted() else "finished"  # it may have ended before
        snapshots = snapshot_steps(settings.steps, settings.snapshots)
        with signals(self._signalled):
            if self.step in snapshots:
                self._snapshot()
            while self.step < settings.steps and reason == "finished":
                self._step(callbacks)
                if self.step in snapshots:
                    self._snapshot()
                if self.step % settings.evaluate_every == 0 or self.step == settings.steps:
                    self._validate(callbacks)
                    if self._exhausted():
                        reason = "patience"
                if settings.sample_every and self.step % settings.sample_every == 0:
                    self._sample(callbacks)
                if self.processes.any(bool(self._stop)):
                    reason = self._stop or "stopped"
                last = self.step == settings.steps or reason != "finished"
                best = bool(settings.patience) and self.best[0] == self.step
                if last or best or self.step % settings.save_every == 0:
                    self._save(callbacks)
        if reason in ("finished", "patience"):
            self._finish()
        return reason

    # One step ----------------------------------------------------------------

    def _step(self, callbacks: list[Callback]) -> None:
        began = time.perf_counter()
        metrics = self.strategy.fit(self) or self._descend()
        self.step += 1
        taken = time.perf_counter() - began
        self.seconds += taken
        if self.step % self.settings.log_every == 0 or self.step in (1, self.settings.steps):
            speed = {f"{k}_per_second": metrics.pop(k) / taken for k in COUNTS if k in metrics}
            for callback in callbacks:
                callback.stepped(self, {**metrics, **speed, "seconds": self.seconds})

    def _descend(self) -> dict[str, float]:
        """Gradient descent by the step's batch; gives its metrics, examples and tokens."""
        batch = self.batches.train(self.step)
        self._seed()
        rate = learning_rate(self.settings, self.step)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["share"]
        means = self._gradients(batch)
        loss = sum(means[name] for name in self.objective.losses)
        norm = clip_gradients(self.network, self.settings.clip)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self.step += 1
            what = f"loss is {loss}" if not math.isfinite(loss) else f"gradient's norm is {norm}"
            raise self._not_finite(what)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        counts = {"examples": len(next(iter(batch.values())))}
        if "ids" in batch:
            counts["tokens"] = batch["ids"].size
        return {"loss": loss, **means, "rate": rate, "norm": norm, **counts}

    def _gradients(self, batch: Batch) -> dict[str, float]:
        """Gradients of the mean loss over the whole batch, by gradient accumulation.

        The mean is over all terms of the batch, whatever parts and ranks they are in.
        """
        if not self.network.training:
            training_mode(self.stepping)
        terms = self.objective.terms(batch)
        means = dict.fromkeys(self.objective.losses, 0.0)
        states: list[State] = []
        parts = list(self._parts(batch))
        for number, rows in enumerate(parts):
            with self.processes.gradient_sync(self.network, number == len(parts) - 1):
                with self._precision():
                    sums, state = self.objective.sums(
                        self.stepping, tensors(batch, rows, self.device), self._state(rows)
                    )
                loss = sum(sums[name] / max(1, terms[name]) for name in self.objective.losses)
                (loss * self.processes.count).backward()  # type: ignore[union-attr]
            states.append(state)
            for name in means:
                means[name] += sums[name].item() / max(1, terms[name])
        self.state = _joined(states)
        return self.processes.all_reduce(means)

    def _parts(self, batch: Batch) -> Iterator[slice]:
        """This rank's rows of a batch, in the parts whose gradients are accumulated."""
        rows = len(next(iter(batch.values())))
        mine = self.processes.rows(rows)
        count = min(self.settings.accumulate, mine.stop - mine.start)
        edges = np.linspace(mine.start, mine.stop, count + 1).astype(int)
        yield from (slice(int(start), int(stop)) for start, stop in pairwise(edges))

    def _state(self, rows: slice) -> State:
        """The carried state of some of this rank's rows."""
        if self.state is None:
            return None
        first = self.processes.rows(self.settings.batch).start
        return tuple(part[:, rows.start - first : rows.stop - first] for part in self.state)

    def _not_finite(self, what: str) -> LossNotFinite:
        kept = self.checkpoints.steps()
        good = f"the last checkpoint is of step {kept[-1]}" if kept else "there is no checkpoint"
        return LossNotFinite(
            f"the {what} at step {self.step}; {good}. "
            f"A lower training.learning_rate or training.clip may help"
        )

    def _seed(self) -> None:
        """Dropout follows from the seed, the step and the rank alone."""
        key = np.random.SeedSequence([self.recipe.seed, self.step, self.processes.rank])
        number = int(key.generate_state(1, np.uint64)[0] >> 1)
        if self.device.type == "cpu":  # the call for all devices takes 0.2 ms
            torch.default_generator.manual_seed(number)
        else:
            torch.manual_seed(number)

    @property
    def device(self) -> torch.device:
        return self.processes.device

    def _precision(self) -> AbstractContextManager[object]:
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    # Validation --------------------------------------------------------------

    def _validate(self, callbacks: list[Callback]) -> None:
        self.valid = self.strategy.means(self) or self.objective.means(
            self.network,
            self.batches.valid(self.settings.validate_on),
            self.device,
            self._precision,
        )
        if not math.isfinite(self.valid["loss"]):
            raise self._not_finite(f"validation's loss is {self.valid['loss']}")
        if self.valid["loss"] < self.best[1]:
            self.best = (self.step, self.valid["loss"])
        for callback in callbacks:
            callback.validated(self, self.valid)

    def _sample(self, callbacks: list[Callback]) -> None:
        assert self.source.tokenizer is not None, "recipes ask models of text alone for samples"
        self.network.eval()
        window = self.config.context or 64
        text = sample(
            self.network, self.source.tokenizer, self.settings.prompt, window, seed=self.step
        )
        for callback in callbacks:
            callback.sampled(self, text)

    def _exhausted(self) -> bool:
        """Early stopping: whether ``patience`` validations brought no gain."""
        waited = (self.step - self.best[0]) // self.settings.evaluate_every
        return bool(self.settings.patience) and waited >= self.settings.patience

    # Stopping and going on ---------------------------------------------------

    def stop(self, reason: str) -> None:
        """Save after this step and leave; for callbacks, and for signals."""
        self._stop = reason

    def _signalled(self, name: str) -> None:
        """A first signal ends the run after its step, a second one at once.

        A closed terminal is no second one: the system and the shell may both send its SIGHUP.
        """
        if self._stop and name != "SIGHUP":
            raise KeyboardInterrupt
        self.stop(self._stop or name)

    def _save(self, callbacks: list[Callback]) -> None:
        sharded = self.processes.parallel == "fsdp"
        weights = {} if sharded else stored.full_weights(self.network)
        moments = {} if sharded else stored.full_moments(self.network, self.optimiser)
        state = gather_state(self.state, self.processes)
        if self.processes.any(not all(w.isfinite().all() for w in weights.values())):
            raise self._not_finite("parameters are not finite")

        def write(stage: Path) -> None:
            if sharded:
                stored.write_shards(stage, self.network, self.optimiser)
            if self.processes.first:
                if not sharded:
                    self._model(weights).save(stage)
                    self.strategy.write(stage, weights)
                    files.write(stage / OPTIMISER, _arrays(moments), "float32")
                files.write(stage / STATE, _arrays(dict(enumerate(state))), "float32")
                (stage / POSITION).write_text(json.dumps(self._position(), indent=2) + "\n")
            if sharded:
                self.processes.wait()

        if self.processes.first:
            also = self.best[0] if self.settings.patience else None
            told = (lambda stage: write(self.processes.broadcast(stage))) if sharded else write
            saved = self.checkpoints.save(self.step, told, also)
            for callback in callbacks:
                callback.saved(self, saved)
        elif sharded:
            write(self.processes.broadcast(None))
        self.processes.wait()

    def _model(self, weights: Mapping[str, Tensor]) -> Model:
        return Model(
            self.config,
            _arrays(self.strategy.plain(dict(weights))),
            self.source.tokenizer,
            preprocessing=self.source.preprocessing,
            generation_config=self.generation_config,
        )

    def _snapshot(self) -> None:
        """Keep the model as it is now, in half precision; a resumed run keeps what is there."""
        target = self.folder / SNAPSHOTS / f"step-{self.step:08d}"
        weights = stored.full_weights(self.network)
        if self.processes.first and not target.exists():
            model = self._model(weights)
            model.dtype = "float16"
            model.save(target)

    def _position(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "best": list(self.best) if math.isfinite(self.best[1]) else None,
            "valid": self.valid,
            "seconds": self.seconds,
            "machine": f"{processor()}, threads: {torch.get_num_threads()}, {self.precision}",
            "seed": self.recipe.seed,
            "data": self.source.digest,
            "recipe": self.recipe.to_json(),
            "versions": {
                "vesalius": __version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
        }

    def _finish(self) -> None:
        """Save the run's model: the last one, or with early stopping the best."""
        best = self.checkpoints.folder / f"step-{self.best[0]:08d}"
        earlier = bool(self.settings.patience) and self.best[0] != self.step
        if earlier and (best / stored.SHARDS).exists():
            stored.read_shards(best, self.network, self.optimiser)
            earlier = False
        weights = stored.full_weights(self.network)
        if self.processes.first:
            model = load(best) if earlier else self._model(weights)
            known = self.objective.calibrated(model, self.batches)
            model.preprocessing = model.preprocessing.change(**known)
            model.save(self.folder / "model")

    def _found(self, resume: bool) -> Path | None:
        """The checkpoint to go on from."""
        if self.processes.first:
            self.checkpoints.tidy()
        newest = self.checkpoints.newest()
        if newest is not None and not resume:
            raise ImpossibleSetting(
                f"{self.folder} holds a run at step {self.checkpoints.steps()[-1]}; "
                f"go on with --resume, or choose another folder"
            )
        return newest

    def _restore(self, folder: Path) -> None:
        position = read_json(folder / POSITION)
        # Read again, so that settings which are newer than the run have their defaults.
        begun, now = read(position["recipe"]).to_json(), self.recipe.to_json()
        if self.settings.steps > begun["training"]["steps"]:  # it goes on beyond its end
            begun["training"]["steps"] = self.settings.steps
        if differing := differences(begun, now):
            raise AnotherRecipe(
                f"{self.folder} was begun with another recipe; what differs: {differing}"
            )
        if position["data"] != self.source.digest:
            raise AnotherRecipe(f"{self.folder} was begun with other data than there is now")
        self.step, self.seconds = position["step"], position["seconds"]
        self.valid = position["valid"]
        self.best = tuple(position["best"]) if position["best"] else (0, math.inf)
        if (folder / stored.SHARDS).exists():
            stored.read_shards(folder, self.network, self.optimiser)
        else:
            moments = files.read(folder / OPTIMISER).arrays
            weights = self.strategy.read(folder, load(folder).state)
            stored.restore(self.network, self.optimiser, weights, moments)
        state = files.read(folder / STATE).arrays
        self.state = local_state([state[key] for key in sorted(state)], self.processes)


def snapshot_steps(steps: int, count: int) -> frozenset[int]:
    """Step 0, the last step, and steps between them on a logarithmic scale: ``count`` at most."""
    if count < 2:
        return frozenset([steps][:count])
    return frozenset({0, *np.geomspace(steps, 1, count - 1).round().astype(int).tolist()})


def _arrays(tensors: Mapping[int, Tensor] | Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    return {str(name): tensor.numpy() for name, tensor in tensors.items()}


def _joined(states: list[State]) -> State:
    """The state of all parts of a batch."""
    if not states or states[0] is None:
        return None
    kinds = zip(*(state for state in states if state is not None), strict=True)
    return tuple(torch.cat(parts, dim=1) for parts in kinds)
