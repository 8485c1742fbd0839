"""What holds for all verbs: examples, JSON, quick starts, quiet ends."""

import importlib
import os
import pkgutil
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from processes import SECONDS, shown, vesalius

import vesalius.cli as package
from vesalius.cli import SUBJECTS, cli
from vesalius.specimens import specimens


def verbs(command=cli, path=()):
    """Every command below the group, with its path."""
    yield pytest.param(command, path, id=" ".join(path) or "vesalius")
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from verbs(below, (*path, name))


def test_every_command_of_the_modules_is_reached():
    reached = [parameter.values[0] for parameter in verbs()]
    for place in pkgutil.iter_modules(package.__path__, "vesalius.cli."):
        for name, found in vars(importlib.import_module(place.name)).items():
            missing = isinstance(found, click.Command) and found not in reached
            assert not missing, f"{name} of {place.name} is missing from SUBJECTS"


@pytest.mark.parametrize(("command", "path"), list(verbs()))
def test_every_verb_helps_with_an_example_of_its_own(command, path):
    _, sign, example = command.help.partition("Example: ")
    assert sign
    words = shlex.split(example)
    assert words[: len(path) + 1] == ["vesalius", *path]


@pytest.mark.parametrize(("command", "path"), list(verbs()))
def test_every_verb_speaks_json(command, path):
    options = {option for parameter in command.params for option in parameter.opts}
    assert isinstance(command, click.Group) or "--json" in options


def test_the_help_names_every_verb_under_its_subject():
    text = shown("--help")
    places = [text.index(f"\n{subject}:\n") for subject in SUBJECTS]
    assert places == sorted(places)
    verbs = text[places[0] : text.index("The paper:")].rstrip()
    named = [
        line.split()[0] for line in verbs.splitlines() if line.startswith("  ") and line.strip()
    ]
    assert named == list(cli.commands) == cli.list_commands(click.Context(cli))


def test_the_help_has_a_whole_sentence_for_every_verb_at_80_columns():
    context = click.Context(cli, info_name="vesalius", terminal_width=78)  # of 80, two are margin
    lines = cli.get_help(context).splitlines()
    assert max(map(len, lines)) <= 80
    for verb in (verb for verbs_of in SUBJECTS.values() for verb in verbs_of):
        assert_whole(verb, lines)
        if isinstance(verb, click.Group):
            inner = click.Context(verb, info_name=verb.name, terminal_width=78)
            for one in verb.commands.values():
                assert_whole(one, verb.get_help(inner).splitlines())


def assert_whole(verb, lines):
    (line,) = [line for line in lines if line.split()[:1] == [verb.name]]
    first, _, _ = " ".join(verb.help.split("\n\n")[0].split()).partition(". ")
    assert line.split(maxsplit=1)[1].rstrip(".") == first.rstrip(".")


@pytest.mark.parametrize("arguments", [["--help"], ["data", "list"], ["data", "get", "--help"]])
def test_help_and_lists_load_neither_torch_nor_numpy(arguments):
    run = f"from vesalius.cli import cli; cli.main({arguments!r}, standalone_mode=False)"
    code = f"import sys\n{run}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.splitlines()[-1].split())
    assert "vesalius.cli.data" in modules
    assert not modules & {"torch", "numpy", "matplotlib", "transformers"}


def test_the_script_and_the_module_are_the_same():
    from vesalius.cli import main

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["vesalius"].partition(":")
    code = f"from {module} import {name} as main; import sys; print(main.__module__, main.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [main.__module__, main.__name__]


INTERRUPTED = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["vesalius", "count", "gpt2"]
from vesalius.__main__ import main
main()
"""


@pytest.mark.parametrize(
    "module", ["vesalius.cli", "click", "vesalius.cli.anatomy", "vesalius.counting"]
)
def test_an_interrupt_while_modules_are_imported_ends_in_silence(module):
    code = INTERRUPTED.format(module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode in (-signal.SIGINT, 130)
    assert (done.stdout, done.stderr.strip()) == ("", "")


def test_an_interrupt_that_is_ignored_stays_ignored():
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    code = f"{ignore}\n{INTERRUPTED.format(module='vesalius.counting')}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "gpt2" in done.stdout


def offered(*words):
    """What the shell is told when the last word is to be completed."""
    asked = {"_VESALIUS_COMPLETE": "bash_complete", "COMP_WORDS": shlex.join(words)}
    asked["COMP_CWORD"] = str(len(words) - 1)
    done = vesalius(env={**os.environ, **asked})
    assert (done.returncode, done.stderr) == (0, "")
    return [tuple(line.split(",")) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("vesalius", "count", "gpt2-x"), [("plain", "gpt2-xl"), ("dir", "gpt2-x")]),
        (("vesalius", "dissect", "gpt"), [("plain", "gpt"), ("plain", "gpt2")]),
        (("vesalius", "train", "stories-g"), [("plain", "stories-gpt"), ("file", "stories-g")]),
        (("vesalius", "evaluate", "gpt", "wiki"), [("plain", "wikitext-2"), ("file", "wiki")]),
        (("vesalius", "next"), [("plain", "next-sentence")]),
    ],
    ids=lambda words: words[-1] if isinstance(words[0], str) else "",
)
def test_shells_complete_verbs_and_the_names_of_models_recipes_and_corpora(words, expected):
    assert set(expected) <= set(offered(*words))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("count gpt2-", "gpt2-medium gpt2-large gpt2-xl"),
        ("train stories-g", "stories-gpt"),
        ("evaluate gpt wiki", "wikitext-2"),
        ("count ./", ""),
        ("count specimen : gp", "gpt"),  # as bash parts specimen:gp
        ("count specimen :", " ".join(specimens())),
        ("diff specimen : gpt specimen : ls", "lstm"),
        ("tokenize size : gpt hub : sp", ""),
        ("count specimen:gp", "specimen:gpt"),  # where COMP_WORDBREAKS has no colon
    ],
)
def test_bash_offers_the_names(words, expected, tmp_path):
    """By the script that bash is given; it may forget names on the way."""
    (tmp_path / "vesalius").write_text(f'#!/bin/sh\nexec {sys.executable} -m vesalius "$@"\n')
    (tmp_path / "vesalius").chmod(0o755)
    script = f"""
        PATH={tmp_path}:$PATH
        eval "$(_VESALIUS_COMPLETE=bash_source vesalius)"
        compopt() {{ :; }}  # which bash has only while it completes
        COMP_WORDS=(vesalius {words}) COMP_CWORD={len(words.split())}
        _vesalius_completion vesalius
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=SECONDS)
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")


@pytest.mark.parametrize(("command", "path"), list(verbs()))
def test_every_name_of_a_model_is_completed(command, path):
    context = click.Context(command)
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and parameter.name in ("model", "source"):
            found = {item.value for item in parameter.shell_complete(context, "")}
            assert {"gpt", "gpt2-xl", "bert-base-uncased"} <= found


def test_a_closed_pipe_ends_quietly():
    command = f"{sys.executable} -m vesalius equations --json | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout == "[\n"
    assert done.stderr == ""


def test_a_full_disk_is_trouble_of_the_environment():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "vesalius", "equations", "--json"]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS
        )
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


@pytest.mark.parametrize("code", [0, 1])
def test_the_exit_code_that_a_verb_asks_for_is_that_of_the_process(code):
    from vesalius.cli import _guarded

    @click.command()
    def verb():
        raise click.exceptions.Exit(code)

    assert _guarded(lambda: verb.main([], standalone_mode=False)) == code


@pytest.mark.parametrize("path", [[], ["data"], ["tokenizer"]], ids=" ".join)
def test_a_group_alone_prints_its_help_as_help(path):
    done = vesalius(*path)
    assert done.returncode == 2
    assert done.stderr == shown(*path, "--help")
    assert max(map(len, done.stderr.splitlines())) <= 100


def demanding():
    return [
        pytest.param(path, id=" ".join(path))
        for _, path in (parameter.values for parameter in verbs())
        if any(p.required for p in _command(path).params)
    ]


def _command(path):
    command = cli
    for name in path:
        command = command.commands[name]
    return command


@pytest.mark.parametrize("path", demanding())
def test_a_verb_without_its_arguments_says_how_it_is_used_and_what_is_missing(path):
    done = vesalius(*path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"Usage: vesalius {' '.join(path)} [OPTIONS] ")
    assert "\nvesalius: Missing " in done.stderr
    assert done.stdout == ""


def test_a_full_disk_is_told_with_its_file_and_without_a_number(capsys):
    def full():
        raise OSError(28, "No space left on device", "vectors.npy")

    assert package._guarded(full) == 3
    assert capsys.readouterr().err == "vesalius: vectors.npy: No space left on device\n"
