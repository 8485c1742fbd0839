"""How a run looks in a terminal: a few lines that stay in place; elsewhere plain lines."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vesalius.training import Watcher
from vesalius.training.sources import Tell

if TYPE_CHECKING:
    from vesalius.training import Run


@contextmanager
def display(quiet: bool = False) -> Iterator[tuple[Watcher, Tell]]:
    """A watcher that shows a run, and something to tell of the work before it."""
    if quiet:
        yield Watcher(), lambda what, done, of: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        with Live(console=console, refresh_per_second=4, transient=False) as live:
            screen = Screen(live)
            yield screen, screen.tell
    else:
        lines = Lines()
        yield lines, lines.tell


def left(run: "Run", began: tuple[float, int]) -> float:
    """Seconds until the end, at the pace since the run began or went on."""
    seconds, steps = time.monotonic() - began[0], run.step - began[1]
    return seconds / max(1, steps) * (run.how.steps - run.step)


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def numbers(metrics: dict[str, float]) -> str:
    """What a validation gave, for people."""
    shown = []
    for name, value in metrics.items():
        shown.append(f"{name} {value:.1%}" if name.endswith("accuracy") else f"{name} {value:.4f}")
    return ", ".join(shown)


class Lines(Watcher):
    """One line for each thing that happens, at most one each five seconds for steps."""

    def __init__(self) -> None:
        self.told, self.what = 0.0, ""

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 # what this class is for

    def tell(self, what: str, done: int, of: int | None) -> None:
        if what != self.what:
            self.what = what
            self.say(f"making {what}")

    def begins(self, run: "Run") -> None:
        self.began = (time.monotonic(), run.step)
        count = sum(p.numel() for p in run.network.parameters())
        self.say(f"{run.family}, {count:,} parameters, from step {run.step} to {run.how.steps}")

    def stepped(self, run: "Run", metrics: dict[str, float]) -> None:
        if time.monotonic() - self.told < 5 and run.step < run.how.steps:
            return
        self.told = time.monotonic()
        speed = metrics.get("tokens_per_second", metrics["examples_per_second"])
        unit = "tokens" if "tokens_per_second" in metrics else "examples"
        self.say(
            f"step {run.step}/{run.how.steps}  loss {metrics['loss']:.4f}  "
            f"norm {metrics['norm']:.2f}  {speed:,.0f} {unit}/s  "
            f"{duration(left(run, self.began))} left"
        )

    def validated(self, run: "Run", metrics: dict[str, float]) -> None:
        self.say(f"step {run.step}  validation: {numbers(metrics)}")

    def sampled(self, run: "Run", text: str) -> None:
        self.say(f"step {run.step}  sample: {text!r}")

    def saved(self, run: "Run", folder: Path) -> None:
        self.say(f"step {run.step}  saved {folder}")


class Screen(Watcher):
    """Loss, validation, speed and time left, in place."""

    def __init__(self, live: Any) -> None:
        self.live = live
        self.rows: dict[str, str] = {}
        self.began = (time.monotonic(), 0)

    def show(self) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for name, value in self.rows.items():
            table.add_row(Text(name, style="dim"), Text(value))
        self.live.update(table)

    def tell(self, what: str, done: int, of: int | None) -> None:
        share = f"{done / of:.0%}" if of else (f"{done / 1e6:,.1f} MB" if done else "")
        self.rows["making"] = f"{what} {share}"
        self.show()

    def begins(self, run: "Run") -> None:
        self.began = (time.monotonic(), run.step)
        count = sum(p.numel() for p in run.network.parameters())
        self.rows = {"model": f"{run.family}, {count:,} parameters", "run": str(run.folder)}
        self.show()

    def stepped(self, run: "Run", metrics: dict[str, float]) -> None:
        done = run.step / run.how.steps
        bar = "━" * round(30 * done) + "╌" * (30 - round(30 * done))
        speed = metrics.get("tokens_per_second", metrics["examples_per_second"])
        unit = "tokens" if "tokens_per_second" in metrics else "examples"
        self.rows["step"] = f"{run.step:,} of {run.how.steps:,} {bar}"
        self.rows["loss"] = f"{metrics['loss']:.4f}"
        self.rows["gradient"] = f"norm {metrics['norm']:.3f}, rate {metrics['rate']:.2e}"
        self.rows["speed"] = f"{speed:,.0f} {unit}/s, {duration(left(run, self.began))} left"
        self.show()

    def validated(self, run: "Run", metrics: dict[str, float]) -> None:
        self.rows["validation"] = f"{numbers(metrics)} at step {run.step:,}"
        self.show()

    def sampled(self, run: "Run", text: str) -> None:
        self.rows["sample"] = text
        self.show()

    def saved(self, run: "Run", folder: Path) -> None:
        self.rows["saved"] = f"{folder.name}"
        self.show()
