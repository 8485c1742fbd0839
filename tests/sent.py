"""What other processes give back in the tests of pickling: a result of every kind."""

import numpy as np

import vesalius as vs

TEXT = "He shook his"
TWO = [TEXT, "It was a"]


def gpt(**edit):
    return vs.dissect("gpt", TEXT, edit=edit.get("edit"))


MADE = {
    "model": lambda: vs.load("lstm"),
    "configuration": lambda: vs.load("gpt").config,
    "trace": gpt,
    "trace with zeros": lambda: gpt(edit={"P[3,4]": vs.zero}),
    "trace with means": lambda: gpt(edit={"P[3,4]": vs.mean(TWO)}),
    "trace with noise": lambda: gpt(edit={"P[3,4]": vs.noise(0.1)}),
    "trace with a factor": lambda: gpt(edit={"P[3,*]": vs.scale(2.0)}),
    "trace with values of another": lambda: gpt(edit={"P[3,4]": vs.from_trace(gpt())}),
    "trace with a function": lambda: gpt(edit={"P[3,4]": np.negative}),
    "unfolding": lambda: vs.unfold(gpt(), "H[1]", 0, 0),
    "lens": lambda: vs.lens(gpt()),
    "gradient": lambda: vs.gradient("gpt", TEXT),
    "attribution": lambda: vs.attribute(gpt()),
    "ablation": lambda: vs.ablate("gpt", TEXT, "P[1,*]", edit=lambda P: 0 * P),
    "patching": lambda: vs.patch("gpt", TEXT, "He opened his", "H[*]", " head"),
    "heads": lambda: vs.heads("gpt", TWO, effects=False),
    "gates": lambda: vs.gates(vs.dissect("lstm", TEXT)),
    "difference": lambda: vs.diff("lstm", "lstm", TEXT, edit_b={"h[1,1]": vs.zero}),
    "surprisal": lambda: vs.surprisal("gpt", TEXT),
    "neighbours": lambda: vs.neighbours("gpt", " head"),
    "projection": lambda: vs.project("gpt", (" he", " she")),
    "contexts": lambda: vs.contexts(gpt()),
    "count": lambda: vs.count("gpt2"),
    "cost": lambda: vs.cost("gpt2", length=10),
    "verification": lambda: vs.verify("lstm"),
    "generation": lambda: vs.generate("gpt", TEXT, 3, seed=1),
    "generations": lambda: vs.generate("gpt", TWO, 3, samples=2, seed=1),
    "inspection": lambda: vs.inspect("lstm"),
    "embeddings": lambda: vs.embed("bert", TWO),
    "similar": lambda: vs.similar("bert", TEXT, TWO),
    "filling": lambda: vs.fill("bert", "He shook his [MASK]."),
    "next sentence": lambda: vs.next_sentence("bert", TEXT, "He was old."),
    "classification": lambda: vs.classify("vit", np.zeros((28, 28, 1), np.uint8)),
    "figure": lambda: vs.figure("gpt2"),
}


def made(name):
    return MADE[name]()


def edited_without_a_name(text):
    return vs.dissect("lstm", text, edit={"h[1,*]": lambda h: 0 * h})
