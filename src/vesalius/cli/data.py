"""Verbs on corpora: which there are, what is here of them, and how to get the rest."""

from pathlib import Path
from typing import Any

import click

from vesalius.cli import terminal
from vesalius.cli.options import complete_corpora, json_option


@click.group()
def data() -> None:
    """List, describe and fetch corpora. A corpus of your own needs none of this.

    They are looked for in the folder VESALIUS_DATA, then in the cache: the folder VESALIUS_CACHE,
    or the system's own.

    Example: vesalius data list
    """


@data.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Which corpora there are, their licences, and where they are.

    Example: vesalius data list
    """
    from vesalius.data.registry import corpora

    rows = [known.to_json() for known in corpora()]
    return terminal.show_json(rows) if as_json else terminal.show_corpora(rows)


@data.command()
@click.argument("name", shell_complete=complete_corpora)
@json_option
def info(name: str, as_json: bool) -> None:
    """Show a corpus: licence, source, files here or missing.

    Files that are here are checked by their size and SHA-256.

    Example: vesalius data info tinyshakespeare
    """
    from vesalius.data.registry import corpus, verify

    described: dict[str, Any] = corpus(name).to_json()
    described["files"] = [check.to_json() for check in verify(name)]
    if name == "stories":
        from vesalius.data import stories

        described |= {"entropy": stories.entropy(), "perplexity": stories.perplexity_floor()}
        described["vocabulary"] = len(stories.vocabulary())
        described["parts_of_speech"] = stories.tags()
    return terminal.show_json(described) if as_json else terminal.show_corpus(described)


@data.command()
@click.argument("name", shell_complete=complete_corpora)
@click.option("--words", type=click.IntRange(1), help="Of stories, at least; 100,000 by default.")
@click.option("--seed", type=click.IntRange(0), help="Of the stories; 0 by default.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="File for the stories."
)
@json_option
def get(name: str, words: int | None, seed: int | None, out: Path | None, as_json: bool) -> None:
    """Fetch a corpus into the cache, or write stories.

    NAME is a corpus of `vesalius data list`. What is here already is not fetched again, and every
    file is checked by its SHA-256. Stories are not fetched: a grammar makes them, from a seed and
    as many as are wanted.

    Example: vesalius data get stories --words 1000000 --seed 1 --out stories.txt
    """
    from vesalius.data import registry

    if name == "stories":
        return _write_stories(100_000 if words is None else words, seed or 0, out, as_json)
    registry.corpus(name)
    if (words, seed, out) != (None, None, None):
        raise click.UsageError(f"--words, --seed and --out are for stories, not for {name}")
    with terminal.fetching() as progress:
        paths = registry.get(name, progress)
    if as_json:
        return terminal.show_json({"name": name, "files": [str(path) for path in paths]})
    many = f"{len(paths)} files" if len(paths) > 1 else "1 file"
    return click.echo(f"{name}: {many} in {terminal.folder_of(map(str, paths))}")


def _write_stories(words: int, seed: int, out: Path | None, as_json: bool) -> None:
    from vesalius.checkpoints.plain import replacing
    from vesalius.data import stories

    if out is None:
        raise click.UsageError("stories are made, not fetched; say where to write them: --out FILE")
    text = stories.text(seed, words)
    with replacing(out) as place:
        place.write_text(text, encoding="utf-8", newline="\n")
    written = len(text.split())
    if as_json:
        made = {"words": written, "seed": seed}
        return terminal.show_json({"name": "stories", "files": [str(out)], **made})
    return click.echo(f"{out}: {written:,} words of stories, seed {seed}")
