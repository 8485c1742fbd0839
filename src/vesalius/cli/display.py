"""How a run looks in a terminal: a few lines that stay in place; elsewhere plain lines."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vesalius.arguments import Progress, silent
from vesalius.training import Callback
from vesalius.training.strategies.strategy import count

if TYPE_CHECKING:
    from vesalius.training import Run


@contextmanager
def display(quiet: bool = False) -> Iterator[tuple["Display", Progress]]:
    """A callback that shows a run, and progress that shows the work before it."""
    if quiet:
        yield Display(), silent
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        with Live(console=console, refresh_per_second=4, transient=False) as live:
            screen = Screen(live)
            yield screen, screen.progress
    else:
        lines = Lines()
        yield lines, lines.progress


def left(run: "Run", began: tuple[float, int]) -> float:
    """Seconds until the end, at the pace since the run began or went on."""
    seconds, steps = time.monotonic() - began[0], run.step - began[1]
    return seconds / max(1, steps) * (run.settings.steps - run.step)


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def numbers(run: "Run", metrics: dict[str, float]) -> str:
    """What a validation gave, for people: no parts of the loss where it has only one."""
    parts = run.objective.losses
    alone = parts[0] if len(parts) == 1 else None
    shown = []
    for name, value in metrics.items():
        short = name.removeprefix(f"{alone} ")
        if name != alone:
            shown.append(f"{short} {value:.1%}" if "accuracy" in name else f"{short} {value:.4f}")
    return ", ".join(shown)


def speed(metrics: dict[str, float]) -> str:
    if "tokens_per_second" in metrics:
        return f"{metrics['tokens_per_second']:,.0f} tokens/s"
    return f"{metrics['examples_per_second']:,.0f} examples/s"


def described(run: "Run") -> str:
    trained, every = count(run.network)
    part = "" if trained == every else f", {trained:,} of them trained"
    return f"{run.family}, {every:,} parameters{part}"


def notes(run: "Run") -> tuple[str, ...]:
    """What was done to the data that people should know."""
    told: tuple[str, ...] = getattr(run.batches, "notes", ())
    return told


def printable(text: str) -> str:
    """A sample in one paragraph; models of bytes write control characters too."""
    return "".join(c if c.isprintable() else " ⏎ " if c == "\n" else "·" for c in text)


class Display(Callback):
    """What shows a run; this one shows nothing."""

    said: tuple[str, ...] = ()
    """What people have been told of the data."""


class Lines(Display):
    """One line for each thing that happens, at most one each five seconds for steps."""

    def __init__(self) -> None:
        self.told, self.what = 0.0, ""

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 # what this class is for

    def progress(self, what: str, done: int, total: int | None, /) -> None:
        if what != self.what:
            self.what = what
            self.say(f"making {what}")

    def begins(self, run: "Run") -> None:
        self.began = (time.monotonic(), run.step)
        self.say(f"{described(run)}, from step {run.step} to {run.settings.steps}")
        self.said = notes(run)
        for note in self.said:
            self.say(note)

    def stepped(self, run: "Run", metrics: dict[str, float]) -> None:
        if time.monotonic() - self.told < 5 and run.step < run.settings.steps:
            return
        self.told = time.monotonic()
        self.say(
            f"step {run.step}/{run.settings.steps}  loss {metrics['loss']:.4f}  "
            f"norm {metrics['norm']:.2f}  {speed(metrics)}  "
            f"{duration(left(run, self.began))} left"
        )

    def validated(self, run: "Run", metrics: dict[str, float]) -> None:
        self.say(f"step {run.step}  validation: {numbers(run, metrics)}")

    def sampled(self, run: "Run", text: str) -> None:
        self.say(f"step {run.step}  sample: {text!r}")

    def saved(self, run: "Run", folder: Path) -> None:
        self.say(f"step {run.step}  saved {folder}")


class Screen(Display):
    """Loss, validation, speed and time left, in place."""

    ROWS = (
        *("making", "model", "run", "data", "step", "loss", "gradient", "speed"),
        *("validation", "saved", "sample"),
    )

    def __init__(self, live: Any) -> None:
        self.live = live
        self.rows: dict[str, str] = {}
        self.began = (time.monotonic(), 0)

    def show(self, **rows: str) -> None:
        from rich.table import Table
        from rich.text import Text

        self.rows |= rows
        table = Table.grid(padding=(0, 2))
        for name in self.ROWS:
            if name in self.rows:
                table.add_row(Text(name, style="dim"), Text(self.rows[name], overflow="fold"))
        self.live.update(table)

    def progress(self, what: str, done: int, total: int | None, /) -> None:
        share = f"{done / total:.0%}" if total else (f"{done / 1e6:,.1f} MB" if done else "")
        self.show(making=f"{what} {share}")

    def begins(self, run: "Run") -> None:
        self.began = (time.monotonic(), run.step)
        self.rows = {}
        self.show(model=described(run), run=str(run.folder), step=self.bar(run))
        self.said = notes(run)
        if self.said:
            self.show(data="; ".join(self.said))

    def bar(self, run: "Run") -> str:
        done = round(30 * run.step / run.settings.steps)
        return f"{run.step:,} of {run.settings.steps:,} {'━' * done}{'╌' * (30 - done)}"

    def stepped(self, run: "Run", metrics: dict[str, float]) -> None:
        self.show(
            step=self.bar(run),
            loss=f"{metrics['loss']:.4f}",
            gradient=f"norm {metrics['norm']:.3f}, rate {metrics['rate']:.2e}",
            speed=f"{speed(metrics)}, {duration(left(run, self.began))} left",
        )

    def validated(self, run: "Run", metrics: dict[str, float]) -> None:
        self.show(validation=f"{numbers(run, metrics)} at step {run.step:,}")

    def sampled(self, run: "Run", text: str) -> None:
        self.show(sample=printable(text))

    def saved(self, run: "Run", folder: Path) -> None:
        self.show(saved=folder.name)

    def ends(self, run: "Run", reason: str) -> None:
        taken = duration(time.monotonic() - self.began[0])
        self.show(step=self.bar(run), speed=f"{run.step - self.began[1]:,} steps in {taken}")
