"""Importing is silent and cheap, and layers import only what lies below them."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from layers import LAYERS, layer_of

import vesalius

PACKAGE = Path(vesalius.__file__).parent
HEAVY = ("torch", "matplotlib", "transformers")


def loaded_by(code):
    report = f"import sys; sys.argv = ['vesalius', 'count', 'gpt2-xl']\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_next_to_nothing():
    assert not loaded_by("import vesalius") & {*HEAVY, "numpy", "scipy", "click", "rich"}


def test_importing_the_package_imports_nothing_that_could_be_interrupted():
    """An interrupt in an import is a traceback until the command line has seen to it."""
    code = "import sys; before = set(sys.modules); import vesalius\n"
    code += "print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "['vesalius']\n"


def test_counting_loads_neither_torch_nor_matplotlib_nor_even_numpy():
    run = "from vesalius.cli import cli; cli.main(standalone_mode=False)"
    modules = loaded_by(run)
    assert "vesalius.counting" in modules
    assert not modules & {*HEAVY, "numpy", "importlib.metadata"}  # which looks for other packages
    assert not modules & {"tempfile", "tomllib", "difflib"}  # for files, recipes and mistakes


def test_the_equations_need_numpy_only():
    modules = loaded_by("import vesalius.equations")
    assert "numpy" in modules
    assert not modules & {*HEAVY, "scipy"}


def test_loading_and_dissecting_need_no_torch(tmp_path):
    vesalius.create("gpt2", layers=1, embedding=12, vocabulary=9).save(tmp_path)
    code = f"import vesalius; vesalius.dissect(vesalius.load({str(tmp_path)!r}), [1, 2])"
    modules = loaded_by(code)
    assert "vesalius.traces.dissection" in modules
    assert not modules & set(HEAVY)


USES = {
    "fill": "vs.fill(vs.load('bert'), 'He shook his [MASK].')",
    "next-sentence": "vs.next_sentence(vs.load('bert'), 'It rained.', 'He went home.')",
    "embed by bert": "vs.embed(vs.load('bert'), ['He went home.'])",
    "embed by lstm": "vs.embed(vs.load('lstm'), ['He went home.'], layer=1)",
    "similar": "vs.similar(vs.load('gpt'), 'rain', among=['snow', 'a house'])",
    "evaluate gpt": "vs.evaluate(vs.load('gpt'), FILE)",
    "evaluate rnn": "vs.evaluate(vs.load('rnn'), FILE)",
    "evaluate ffnn": "vs.evaluate(vs.load('ffnn'), FILE)",
    "evaluate bert": "vs.evaluate(vs.load('bert'), FILE)",
    "tag": "vs.tag(labelled('tokens'), 'He went home.')",
    "answer": "vs.answer(labelled('span'), 'Who went home?', 'He went home.')",
}
LABELLED = """
def labelled(what):
    import numpy as np
    bert = vs.load("bert")
    bare = {"mlm_head": False, "nsp_head": False, "pooler": False}
    config = bert.config.change(labels=2, labelled=what, **bare)
    heads = ("mlm_head.", "nsp_head.", "pooler.")
    state = {name: a for name, a in bert.state.items() if not name.startswith(heads)}
    new = {"label_head.weight": np.zeros((2, 192), "f4"), "label_head.bias": np.zeros(2, "f4")}
    return vs.Model(config, state | new, bert.tokenizer)
"""


def test_short_texts_need_neither_torch_nor_the_compiler(tmp_path, monkeypatch):
    """Their imports would take longer than all else."""
    monkeypatch.setenv("VESALIUS_CACHE", str(tmp_path))
    file = tmp_path / "text.txt"
    file.write_text("It rained, and he went home. The house was dark, and the door was open.")
    lines = [f"import sys, vesalius as vs; FILE, unwanted = {str(file)!r}, {[*HEAVY, 'numba']}"]
    lines.append(LABELLED)
    for name, use in USES.items():
        lines += [use, f"assert not sys.modules.keys() & set(unwanted), {name!r}"]
    assert "vesalius.generation.forward" in loaded_by("\n".join(lines))


DEPTH = {name: level for level, layer in enumerate(LAYERS) for name in layer}


def imported(node):
    """The modules of ours that an import may load, without the package's name."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("vesalius"):
        return []
    inside = node.module.removeprefix("vesalius").removeprefix(".")
    names = [a.name for a in node.names if a.name != "__version__"]
    below = [f"{inside}.{name}".removeprefix(".") for name in names]
    return [
        name
        if (PACKAGE / name.replace(".", "/")).exists()
        or (PACKAGE / f"{name.replace('.', '/')}.py").exists()
        else inside
        for name in below
    ]


@pytest.mark.parametrize(
    "file",
    sorted(PACKAGE.rglob("*.py")),
    ids=lambda f: str(f.relative_to(PACKAGE).with_suffix("")),
)
def test_imports_only_point_down(file):
    module = ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
    if module == "__init__":  # the package's own list of public names points everywhere
        return
    here = layer_of(module.removesuffix(".__init__"))
    assert here, f"put {module} into tests/layers.py and the README's tree"
    for node in ast.walk(ast.parse(file.read_text())):
        for name in imported(node):
            there = layer_of(name)
            assert there, f"put {name} into tests/layers.py and the README's tree"
            assert there == here or DEPTH[there] > DEPTH[here], f"{module} imports {name}"


def test_the_public_names_are_those():
    assert sorted(vesalius.__all__) == [
        "Model",
        "ablate",
        "answer",
        "attribute",
        "classify",
        "configuration",
        "contexts",
        "cost",
        "count",
        "create",
        "diff",
        "dissect",
        "embed",
        "equations",
        "errors",
        "evaluate",
        "example",
        "explore",
        "families",
        "figure",
        "fill",
        "finetune",
        "forecast",
        "from_trace",
        "gates",
        "generate",
        "gradient",
        "heads",
        "inspect",
        "lens",
        "load",
        "mean",
        "neighbours",
        "next_sentence",
        "noise",
        "patch",
        "project",
        "random_parameters",
        "read_trace",
        "scale",
        "similar",
        "surprisal",
        "tag",
        "tracing",
        "train",
        "unfold",
        "verify",
        "zero",
    ]
    for name in vesalius.__all__:
        assert getattr(vesalius, name) is not None
    assert set(vesalius.__all__) <= set(dir(vesalius))
    with pytest.raises(AttributeError, match="no attribute 'conut'"):
        vesalius.conut  # noqa: B018


@pytest.mark.parametrize("name", sorted({*vesalius.__all__} - {"tracing"}))
def test_public_functions_say_what_they_take_and_give(name):
    """All but ``tracing``, whose values are whatever an equation gives."""
    public = getattr(vesalius, name)
    if inspect.isfunction(public):
        assert not re.search(r"\bAny\b", str(inspect.signature(public)))


def test_an_engine_can_be_asked_for_after_the_first_was_made():
    """A module of the same name would take the function's place when it is first imported."""
    code = "import logging; logging.disable()  # kernels may have to be compiled, which is said\n"
    code += "import vesalius as vs; from vesalius.generation.engines import DTYPES\n"
    code += "import vesalius.generation.engines.feedforward\n"
    code += "from vesalius.generation.engines import engine\n"
    code += "print(engine(vs.load('ffnn')).dtype)"
    assert "numba" in loaded_by(code)
