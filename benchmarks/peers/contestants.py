"""Who takes part in the benchmark of generation, and how each is started, asked and ended."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HERE = sys.executable
PEERS = str(Path(__file__).parents[2] / ".venv-peers" / "bin" / "python")
PROMPTS = np.random.default_rng(19).integers(50257, size=(8, 32)).tolist()
"""All at once where there is a batch, else the first.

The seed is one with which that never comes near a tie of two tokens, so that rounding decides
nothing and whoever differs computes something else."""
LONG_PROMPT = np.random.default_rng(1).integers(50257, size=512).tolist()


@dataclass(frozen=True)
class Contestant:
    name: str
    script: str
    precision: str
    python: str = PEERS
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        return self.precision == "float32"

    @property
    def target(self) -> str:
        """What make installs it with."""
        return "install" if self.python == HERE else ".venv-peers/bench"

    @property
    def label(self) -> str:
        return f"{self.name}, {self.precision}"


CONTESTANTS = [
    Contestant("vesalius", "by_vesalius.py", "float32", HERE),
    Contestant("Transformers", "by_transformers.py", "float32", HERE),
    Contestant("CTranslate2", "by_ctranslate2.py", "float32"),
    Contestant(  # which it takes by itself on Intel's processors only
        "CTranslate2 with MKL",
        "by_ctranslate2.py",
        "float32",
        environment={"CT2_USE_MKL": "1"},
    ),
    Contestant("llama.cpp", "by_llama_cpp.py", "float32"),
    Contestant(
        "KerasHub on PyTorch", "by_keras_hub.py", "float32", environment={"KERAS_BACKEND": "torch"}
    ),
    Contestant(
        "KerasHub on TensorFlow, compiled",
        "by_keras_hub.py",
        "float32",
        environment={"KERAS_BACKEND": "tensorflow"},
    ),
    Contestant("vesalius", "by_vesalius.py", "int8", HERE),
    Contestant("CTranslate2", "by_ctranslate2.py", "int8"),
    Contestant("llama.cpp", "by_llama_cpp.py", "q8_0"),
]


class Missing(Exception):
    """A contestant is not installed."""


class Worker:
    """A contestant in a process of its own, and the seconds that its turns took."""

    def __init__(self, contestant: Contestant, folder: Path, threads: int) -> None:
        self.contestant = contestant
        if not Path(contestant.python).exists():
            raise Missing(f"there is no .venv-peers; make {contestant.target} sets it up")
        self.log = folder / f"{contestant.label}.log"
        settings = {
            "OMP_NUM_THREADS": str(threads),
            "HF_HUB_OFFLINE": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **contestant.environment,
        }
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    contestant.python,
                    str(Path(__file__).parent / contestant.script),
                    str(folder),
                    contestant.precision,
                    str(threads),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **settings},
            )
        try:
            said = self._answer()
            if missing := said.get("missing"):
                named = " and ".join(missing)
                raise Missing(f"no {named} here; make {contestant.target} installs it")
        except BaseException:
            self.close()
            raise
        self.versions: dict[str, str] = said["versions"]
        self.taken: dict[str, list[float]] = {"new": [], "first": [], "batch": []}
        self.bandwidths: list[float] = []
        """Bytes a second that the machine read around each turn."""
        self.ids: list[int] = []

    def continue_prompt(self, new: int) -> float:
        """The seconds that it takes for one sequence."""
        seconds, self.ids = self._ask(do="generate", prompt=PROMPTS[0], new=new)
        if len(self.ids) != new:
            raise RuntimeError(f"{self.contestant.label} gave {len(self.ids)} tokens, not {new}")
        return seconds

    def do_the_rest(self, new: int) -> dict[str, float]:
        """The seconds of the long prompt, and of the batch, of those of whom they are asked."""
        taken = {}
        if self.contestant.exact:
            taken["first"], _ = self._ask(do="prompt", prompt=LONG_PROMPT)
        if self.contestant.name == "vesalius":
            taken["batch"], _ = self._ask(do="generate", prompt=PROMPTS, new=new)
        return taken

    def _ask(self, **asked: Any) -> tuple[float, Any]:
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        answer = self._answer()
        return answer["seconds"], answer["ids"]

    def _answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise RuntimeError(f"{self.contestant.label} ended:\n{tail}")
        return json.loads(line)

    def close(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
