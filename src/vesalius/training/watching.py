"""Who is told of a run's progress: files of metrics, TensorBoard, curves. The loop prints nothing.

``Watcher`` is the interface; whatever wants to follow a run overrides what it cares for.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vesalius.errors import VesaliusError

if TYPE_CHECKING:
    from vesalius.training.loop import Run

METRICS = "metrics.jsonl"


class Watcher:
    """Told of everything, does nothing."""

    def begins(self, run: "Run") -> None:
        """The run is ready to take its first step, or to go on."""

    def stepped(self, run: "Run", metrics: dict[str, float]) -> None:
        """Every ``log_every`` steps: loss, learning rate, gradient norm, tokens a second."""

    def validated(self, run: "Run", metrics: dict[str, float]) -> None:
        """A validation is done."""

    def sampled(self, run: "Run", text: str) -> None:
        """The model wrote something."""

    def saved(self, run: "Run", folder: Path) -> None:
        """A checkpoint is on the disk."""

    def ends(self, run: "Run", reason: str) -> None:
        """The run is over, or interrupted."""


class MetricsFile(Watcher):
    """One line of JSON for each event; what a resumed run will do again is taken back."""

    def begins(self, run: "Run") -> None:
        file = run.folder / METRICS
        kept = [line for line in read_metrics(run.folder) if line["step"] <= run.step]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in kept))
        self.file = file.open("a", buffering=1)

    def _write(self, kind: str, run: "Run", metrics: dict[str, Any]) -> None:
        self.file.write(json.dumps({"kind": kind, "step": run.step, **metrics}) + "\n")

    def stepped(self, run: "Run", metrics: dict[str, float]) -> None:
        self._write("train", run, metrics)

    def validated(self, run: "Run", metrics: dict[str, float]) -> None:
        self._write("valid", run, metrics)

    def sampled(self, run: "Run", text: str) -> None:
        self._write("sample", run, {"text": text})

    def ends(self, run: "Run", reason: str) -> None:
        self.file.close()


class TensorBoard(Watcher):
    """The same numbers for TensorBoard, which has to be installed."""

    def begins(self, run: "Run") -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise VesaliusError(
                "training.tensorboard needs TensorBoard: pip install tensorboard"
            ) from error
        self.writer: Any = SummaryWriter(run.folder / "tensorboard", purge_step=run.step)

    def stepped(self, run: "Run", metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self.writer.add_scalar(f"train/{name}", value, run.step)

    def validated(self, run: "Run", metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self.writer.add_scalar(f"valid/{name}", value, run.step)

    def ends(self, run: "Run", reason: str) -> None:
        self.writer.close()


class Curves(Watcher):
    """Loss curves as SVG and PNG at the end."""

    def ends(self, run: "Run", reason: str) -> None:
        draw_curves(run.folder, run.recipe.title or run.family)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of a run's metrics; a killed process may have left half a line."""
    file = folder / METRICS
    lines = file.read_text().splitlines() if file.exists() else []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return found


def draw_curves(folder: Path, title: str) -> None:
    """curves.svg and curves.png of a run's folder."""
    from matplotlib.figure import Figure

    lines = read_metrics(folder)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    looks = {"train": ("#9db4c0", 1.0, "training"), "valid": ("#c0392b", 2.0, "validation")}
    for kind, (colour, width, label) in looks.items():
        points = [(line["step"], line["loss"]) for line in lines if line["kind"] == kind]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, linewidth=width, label=label)
    last = next((line for line in reversed(lines) if line["kind"] == "valid"), None)
    if last:
        axes.annotate(
            f"{last['loss']:.3f}",
            (last["step"], last["loss"]),
            xytext=(0, 8),
            textcoords="offset points",
            ha="right",
            color=looks["valid"][0],
        )
    axes.set(xlabel="step", ylabel="loss", title=title)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    figure.savefig(folder / "curves.svg")
    figure.savefig(folder / "curves.png", dpi=120)
