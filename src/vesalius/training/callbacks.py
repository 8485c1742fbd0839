"""Callbacks, which are told what happens in a run: files of metrics, TensorBoard, curves.

The loop prints nothing. To follow a run, derive from ``Callback`` and override what is needed.
"""

import json
import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vesalius.checkpoints.plain import replacing
from vesalius.machine import require

if TYPE_CHECKING:
    from vesalius.training.loop import Run

METRICS = "metrics.jsonl"


class Callback:
    """Is told of everything, and does nothing."""

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


class MetricsFile(Callback):
    """One line of JSON for each event; a resumed run drops the lines of steps that it repeats.

    An infinite loss, or one that is not a number, is null.
    """

    def begins(self, run: "Run") -> None:
        kept = [line for line in read_metrics(run.folder) if line["step"] <= run.step]
        with replacing(run.folder / METRICS) as place, place.open("w", encoding="utf-8") as opened:
            opened.writelines(f"{json.dumps(line)}\n" for line in kept)

    def _write(self, kind: str, run: "Run", metrics: dict[str, Any]) -> None:
        line = {"kind": kind, "step": run.step, **{k: _finite(v) for k, v in metrics.items()}}
        with (run.folder / METRICS).open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(line) + "\n")

    def stepped(self, run: "Run", metrics: dict[str, float]) -> None:
        self._write("train", run, metrics)

    def validated(self, run: "Run", metrics: dict[str, float]) -> None:
        self._write("valid", run, metrics)

    def sampled(self, run: "Run", text: str) -> None:
        self._write("sample", run, {"text": text})


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


class TensorBoard(Callback):
    """The same numbers for TensorBoard, which has to be installed."""

    def begins(self, run: "Run") -> None:
        require("tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        # From this step on, what an interrupted run wrote does not count.
        self.writer: Any = SummaryWriter(run.folder / "tensorboard", purge_step=run.step + 1)

    def stepped(self, run: "Run", metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self.writer.add_scalar(f"train/{name}", value, run.step)

    def validated(self, run: "Run", metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self.writer.add_scalar(f"valid/{name}", value, run.step)

    def sampled(self, run: "Run", text: str) -> None:
        self.writer.add_text("sample", text, run.step)

    def saved(self, run: "Run", folder: Path) -> None:
        self.writer.flush()  # so that a run that goes on from here has all before it

    def ends(self, run: "Run", reason: str) -> None:
        self.writer.close()


class Curves(Callback):
    """Loss curves as SVG and PNG at the end."""

    def ends(self, run: "Run", reason: str) -> None:
        draw_curves(run.folder, run.recipe.title or run.family)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of a run's metrics; a killed process may have left half a line."""
    file = folder / METRICS
    lines = file.read_text("utf-8", "replace").splitlines() if file.exists() else []
    found = []
    for line in lines:
        try:
            read = json.loads(line)
        except json.JSONDecodeError:
            break
        if not isinstance(read, dict) or not {"kind", "step"} <= read.keys():
            break
        found.append(read)
    return found


LOOKS: dict[str, dict[str, Any]] = {
    "train": {"label": "training", "color": "#9db4c0", "linewidth": 1.0},
    "valid": {"label": "validation", "color": "#c0392b", "linewidth": 1.8, "marker": "."},
}


def draw_curves(folder: Path, title: str) -> None:
    """curves.svg and curves.png of a run's folder."""
    from matplotlib.figure import Figure

    lines = [line for line in read_metrics(folder) if line.get("loss") is not None]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for kind, look in LOOKS.items():
        points = [(line["step"], line["loss"]) for line in lines if line["kind"] == kind]
        if points:
            axes.plot(*zip(*points, strict=True), **look)
        if points and kind == "valid":
            beside: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points"}
            text = f"{points[-1][1]:.4g}"
            axes.annotate(text, points[-1], color=look["color"], va="center", **beside)
    axes.set(xlabel="step", ylabel="loss")
    shown = textwrap.wrap(title, width=72, max_lines=2, placeholder=" …")
    axes.set_title("\n".join(shown), parse_math=False, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#eeeeee")
    axes.set_axisbelow(True)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    for kind in ("svg", "png"):
        with replacing(folder / f"curves.{kind}") as place:
            figure.savefig(place, format=kind, dpi=120)
