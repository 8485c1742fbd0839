"""The verb that has a model continue."""

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from vesalius.cli import options, terminal
from vesalius.views.shown import Table

if TYPE_CHECKING:
    from vesalius.generation.decoding import Generation
    from vesalius.generation.sampling import Draw
    from vesalius.model import Model

SHADES = " ░▒▓█"
GREYS = (16, *range(232, 256), 231)
"""From black to white, as terminals of 256 colours number them."""


@click.command()
@click.argument("model", shell_complete=options.complete_models)
@click.argument("prompt", required=False)
@click.option("--file", type=options.TEXTS, help="Prompts, one a line; '-' is stdin.")
@click.option("--ids", "by_ids", is_flag=True, help="Take prompts as token ids, and print ids.")
@click.option(
    "-n", "--max-new-tokens", type=int, help="50 by default; with igpt the rest of the picture."
)
@click.option("--temperature", type=float, default=1.0, show_default=True, help="0 is greedy.")
@click.option("--top-k", type=int, help="Draw from the K likeliest tokens.")
@click.option("--top-p", type=float, help="Draw from the likeliest, of this probability in all.")
@click.option("--min-p", type=float, help="Draw from tokens with this share of the likeliest's.")
@click.option("--repetition-penalty", type=float, default=1.0, show_default=True)
@click.option("--stop", multiple=True, help="Text to end before; may be said several times.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--samples", type=int, default=1, show_default=True, help="Of each prompt.")
@click.option("--slide", is_flag=True, help="Go beyond the context with its later half.")
@click.option(
    "--dtype", type=click.Choice(["float32", "int8"]), default="float32", show_default=True
)
@click.option("--threads", type=int, help="The physical cores by default.")
@click.option("--inspect", is_flag=True, help="Show each draw: logits, probabilities, the choice.")
@options.extra_option
@options.json_option
def generate(
    model: str,
    prompt: str | None,
    file: str | None,
    by_ids: bool,
    inspect: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Continue PROMPT with MODEL: a text, or a picture. Text is shown as it arrives; igpt draws
    from nothing. The PROMPT - is standard input, without its last line end.

    Example: vesalius generate gpt "He shook his" --temperature 0.8 --seed 1
    """
    from vesalius.capabilities import require_served
    from vesalius.generation.decoding import draws_pictures
    from vesalius.generation.decoding import generate as run

    loaded = options.load(model)
    require_served(loaded, "generate")
    nothing = draws_pictures(loaded) and prompt is None and file is None
    if (prompt is None) == (file is None) and not nothing:
        raise click.UsageError("expected a PROMPT, or --file with prompts")
    if prompt == "-":
        prompt = options.text_of(prompt).removesuffix("\n").removesuffix("\r")
    given: Any = prompt if file is None else options.lines_of(file)
    streams = file is None and settings["samples"] == 1 and not (as_json or inspect or by_ids)
    if given is not None and (by_ids or loaded.tokenizer is None):
        read = options.ids_of
        given = read(given) if file is None else [read(line) for line in given]
    elif streams and loaded.tokenizer is not None:
        return _stream(loaded, given, settings)
    draws: list[tuple[int, Draw]] = []
    keep = (lambda slot, draw: draws.append((slot, draw))) if inspect else None
    results = run(loaded, given, on_draw=keep, **settings)
    results = results if isinstance(results, list) else [results]
    if as_json:
        shown = [result.to_json() for result in results]
        if inspect:
            for slot, draw in draws:
                shown[slot].setdefault("draws", []).append(draw.to_json(loaded.tokenizer))
        return terminal.show_json(shown if file or len(shown) > 1 else shown[0])
    for number, (slot, draw) in enumerate(sorted(draws, key=lambda pair: pair[0]), 1):
        name = f"sequence {slot + 1}" if len(results) > 1 else f"token {number}"
        _show_draw(loaded, name, draw)
    for result in results:
        if by_ids:
            click.echo(" ".join(map(str, [*(result.prompt or ()), *result.ids])))
        else:
            _show(loaded, result, alone=len(results) == 1)
    return None


def _stream(model: "Model", prompt: str, settings: dict[str, Any]) -> None:
    """Prompt and text as it arrives; an interrupt ends the line."""
    from vesalius.generation.decoding import generate as run

    waiting = [prompt]

    def tell(slot: int, text: str) -> None:
        sys.stdout.write((waiting.pop() if waiting else "") + text)
        sys.stdout.flush()

    try:
        run(model, prompt, on_text=tell, **settings)
    except KeyboardInterrupt as error:
        tell(0, "\n")
        raise click.exceptions.Exit(130) from error
    tell(0, "\n")


def _show(model: "Model", result: "Generation", alone: bool) -> None:
    from vesalius.generation.decoding import picture_side

    if (side := picture_side(model)) is not None:
        levels: int = model.config.vocabulary - 1
        given = [] if isinstance(result.prompt, str) else list(result.prompt)
        pixels = [*(i for i in given if i != levels), *result.ids]
        return click.echo(picture(pixels, levels, side, coloured()))
    if not alone:
        click.echo(click.style("─" * 40, dim=True))
    prompt = result.prompt if isinstance(result.prompt, str) else ""
    return click.echo(prompt + (result.text if model.tokenizer else " ".join(map(str, result.ids))))


def coloured() -> bool:
    """Whether whoever reads the output sees colours, and wants them."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def picture(pixels: list[int], levels: int, side: int, colours: bool) -> str:
    """Pixels two characters wide: as greys of a terminal's 256 colours, or as shades."""

    def drawn(pixel: int) -> str:
        share = min(pixel, levels - 1) / max(1, levels - 1)
        if colours:
            return f"\x1b[48;5;{GREYS[round(share * (len(GREYS) - 1))]}m  "
        return SHADES[round(share * (len(SHADES) - 1))] * 2

    end = "\x1b[0m" if colours else ""
    rows = (pixels[start : start + side] for start in range(0, len(pixels), side))
    return "\n".join("".join(map(drawn, row)) + end for row in rows)


def _show_draw(model: "Model", name: str, draw: "Draw") -> None:
    shown = draw.to_json(model.tokenizer)
    # Without a temperature and a penalty, the logits are drawn from as they are.
    changed = [row for row in shown["candidates"] if row["tempered"] != row["logit"]]
    rows = [
        (
            "→" if row["id"] == shown["token"] else "",
            str(row["id"]),
            repr(row["token"]),
            f"{row['logit']:.3f}",
            *((f"{row['tempered']:.3f}",) if changed else ()),
            f"{row['probability']:.4f}" if row["kept"] else "left out",
        )
        for row in shown["candidates"]
    ]
    tempered = ("after temperature",) if changed else ()
    heads = ("", "id", "token", "logit", *tempered, "probability")
    kept, words = shown["kept"], len(draw.logits)
    few = f"{kept:,} of {words:,}" if kept < words else f"all {words:,}"
    drawn = f"drawn from {few}" if draw.sampling.temperature else f"the likeliest of {words:,}"
    table = Table(heads, rows, right=(1, *range(3, len(heads))), title=f"{name}: {drawn}")
    terminal.show(table)
