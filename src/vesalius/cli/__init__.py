"""The command line: one verb for each thing that people do, in one module for each subject.

Verbs read their arguments, call the library and show what it gives, as a table or with ``--json``.
Exit codes: 0, 2 for bad input, 3 for trouble in the environment; an error is one line.
"""

import io
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import click

from vesalius import __version__
from vesalius.cli import (
    analyses,
    anatomy,
    checkpoints,
    data,
    differences,
    explorer,
    figures,
    forecasting,
    generation,
    reading,
    spans,
    text,
    training,
)
from vesalius.cli.options import Settings, json_option
from vesalius.errors import VesaliusError, printable
from vesalius.machine import EXTRAS, missing

__all__ = ["Settings", "cli", "json_option", "main"]

SUBJECTS: dict[str, list[click.Command]] = {
    "Anatomy": [
        anatomy.models,
        anatomy.equations,
        anatomy.count,
        figures.figure,
        anatomy.dissect,
        anatomy.verify,
    ],
    "Analyses": [
        explorer.explore,
        analyses.unfold,
        analyses.attribute,
        analyses.ablate,
        analyses.patch,
        analyses.lens,
        analyses.heads,
        analyses.gates,
        analyses.gradient,
        differences.diff,
    ],
    "Checkpoints": [checkpoints.specimens, checkpoints.inspect, checkpoints.convert],
    "Use": [
        generation.generate,
        text.surprisal,
        reading.classify,
        forecasting.forecast,
        reading.fill,
        reading.next_sentence,
        spans.tag,
        spans.answer,
        reading.embed,
        reading.similar,
    ],
    "Text and data": [text.tokenize, text.tokenizer, data.data],
    "Training": [training.recipes, training.train, training.finetune, training.evaluate],
}
"""All verbs in the order in which the help names them. Their modules import the library only when
a verb runs, so that the command line starts at once."""


def _added() -> dict[str, click.Command]:
    """The verbs of tasks of other packages."""
    from vesalius.tasks import all_tasks

    commands = (task.command.get() for task in all_tasks() if task.command is not None)
    return {command.name: command for command in commands}


class Verbs(click.Group):
    """The verbs under their subjects."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *_added()]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return self.commands.get(name) or _added().get(name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        added = _added()
        widest = max(map(len, [*self.commands, *added]))
        room = formatter.width - 6 - widest
        others = {"Of other packages": list(added.values())} if added else {}
        for subject, verbs in (SUBJECTS | others).items():
            rows = [(f"{verb.name:{widest}}", verb.get_short_help_str(room)) for verb in verbs]
            with formatter.section(subject):
                formatter.write_dl(rows)


PAPER = (
    "The paper: Majd Saleh and Stéphane Paquelet, Anatomy of Neural Language Models, 2024, "
    "https://arxiv.org/abs/2401.03797"
)


@click.group(
    cls=Verbs,
    epilog=PAPER,
    commands=[verb for verbs in SUBJECTS.values() for verb in verbs],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="vesalius %(version)s")
def cli() -> None:
    """The executable anatomy of neural language models.

    Example: vesalius count gpt2
    """


def main() -> None:
    """Run the command line; whatever goes wrong ends in one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals that know no Greek
    sys.exit(_guarded(_interruptible))


def _interruptible() -> object:
    """Run the verb that was asked for, in which an interrupt is an exception."""
    silent = signal.getsignal(signal.SIGINT) is signal.SIG_DFL  # as ``__main__`` leaves it
    if silent:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return cli.main(prog_name="vesalius", standalone_mode=False)
    finally:
        if silent:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _guarded(run: Callable[[], object]) -> int:
    try:
        code = run()  # click catches a verb's Exit, and returns its code
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return 2
    except click.ClickException as error:
        return _fail(error.format_message(), 2, _usage(error))
    except VesaliusError as error:
        return _fail(str(error), 2)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _fail("there is not enough memory for this", 3)
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        return _fail(str(missing(package) if package in EXTRAS else error), 3)
    except OSError as error:
        return _fail(_told(error), 3)


def _told(error: OSError) -> str:
    """What the system says, with the file where it names one, and without its number."""
    if not error.strerror or not error.errno:
        return str(error)  # a sentence of our own, or of a library
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return f"{where}{error.strerror}"


def _usage(error: click.ClickException) -> str:
    """The usage line of the verb; empty for a bad value, whose message suffices."""
    ctx = getattr(error, "ctx", None)
    value = isinstance(error, click.BadParameter)
    missing = isinstance(error, click.MissingParameter)
    return ctx.get_usage() if ctx is not None and (missing or not value) else ""


def _fail(message: str, code: int, usage: str = "") -> int:
    if usage:
        click.echo(usage, err=True)
    click.echo(f"vesalius: {printable(' '.join(message.split()))}", err=True)
    return code
