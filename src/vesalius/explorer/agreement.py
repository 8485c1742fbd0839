"""Whether a run's outputs are those of another implementation: what the status line tells.

PyTorch would hold up the server's threads while it is loaded, so that a process of its own runs the
network and ends. Where PyTorch is missing, texts are read by the reference engine.
"""

import io
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import numpy as np
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from vesalius.capabilities import predicts_next
from vesalius.equations.parameters import Array
from vesalius.errors import WrongKind
from vesalius.explorer.answers import ASK, once
from vesalius.explorer.results import told
from vesalius.explorer.runs import Run, Runs
from vesalius.families import family_of
from vesalius.machine import cancellation
from vesalius.model import Model, load
from vesalius.verification.agreement import TOLERANCE

HEAVY = 2 << 30
"""Bytes of weights from which on a model is not loaded a second time."""
MANY = 1 << 22
"""Outputs from which on those of the last token are compared, and no others."""
SECONDS = 0.2
"""How often the process is looked after."""


def routes(app: FastAPI, runs: Runs) -> None:
    @app.get("/api/runs/{key}/check")
    def check(key: str) -> Any:
        run = runs.uncut(runs[key])
        found = once(run, ("check",), lambda: told(_answer(run)))
        return JSONResponse(found, headers=ASK)


def _answer(run: Run) -> dict[str, Any]:
    """What was found, or why nothing was."""
    try:
        return checked(run)
    except WrongKind as error:
        return {"peer": None, "why": str(error)}


def checked(run: Run) -> dict[str, Any]:
    """How far the outputs of a run without cuts are from those of other code."""
    model = run.trace.model
    assert model is not None
    if sum(array.nbytes for array in model.state.values()) > HEAVY:
        raise WrongKind("the model is too large to be loaded a second time; 'vesalius verify' does")
    network = find_spec("torch") is not None
    theirs = _apart(run) if network else _engine(model, run)
    with run.entry.at_work():
        ours = {name: _same(run.trace[name], value) for name, value in theirs.items()}
    far = {name: np.abs(ours[name] - theirs[name].astype(np.float64)) for name in ours}
    most = {name: np.abs(value).max(initial=0) or 1.0 for name, value in theirs.items()}
    relative = max(float(far[name].max(initial=0) / most[name]) for name in far)
    return {
        "peer": "network" if network else "engine",
        "steps": list(far),
        "numbers": sum(one.size for one in far.values()),
        "difference": max(float(one.max(initial=0)) for one in far.values()),
        "agrees": relative <= TOLERANCE["float32"],
    }


def _same(ours: Any, theirs: Array) -> Array:
    """Our values of the columns that were computed: all, or the last."""
    if np.ndim(ours) == 2 and ours.shape != theirs.shape:
        return np.asarray(ours[:, [ours.shape[1] - 1]])
    return np.asarray(ours)


def _input(run: Run) -> dict[str, Array]:
    """What the network is given, and with it: segments, what is known of a series, masks."""
    trace, masks = run.trace, run.what.masks
    given = trace.graph.given
    assert given is not None
    reads = family_of(trace.model.config).reads  # type: ignore[union-attr]
    if reads == "series":
        real = trace.real()
        given = trace.get("Omega", given)
        return {"given": given} | ({} if real is None else {"second": real})
    if reads == "images" and masks:
        return {"given": given, "second": np.isin(np.arange(1, len(trace.tokens())), masks)}
    segments = trace.graph.segments
    return {"given": given} | ({} if segments is None else {"second": np.asarray(segments)})


def _apart(run: Run) -> dict[str, Array]:
    """The network's outputs, from a process that ends where nobody waits for them."""
    sent = io.BytesIO()
    arrays: dict[str, Any] = {"names": np.array(run.trace.names()), **_input(run)}
    np.savez(sent, **arrays)
    command = [sys.executable, "-m", __name__, run.entry.name, str(os.getpid())]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes) as process:
        given: bytes | None = sent.getvalue()
        try:
            while process.returncode is None:
                with suppress(subprocess.TimeoutExpired):
                    found, said = process.communicate(given, SECONDS)
                given = None  # it has it
                cancellation.check()
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        last = said.decode(errors="replace").strip().splitlines()[-1:] or ["nothing was said"]
        raise WrongKind(f"the network could not be run: {last[0][:200]}")
    with np.load(io.BytesIO(found)) as file:
        return dict(file)


def _engine(model: Model, run: Run) -> dict[str, Array]:
    """The logits of the last token, or of masked tokens, by the reference engine."""
    from vesalius.generation.engines.reference import ReferenceEngine
    from vesalius.generation.forward import hidden_states, mlm_logits

    step = next((name for name in ("Z", "z") if name in run.trace), None)
    if family_of(model.config).reads not in ("text", "pixels") or step is None:
        raise WrongKind(f"no other implementation of {model.family} is here; PyTorch brings one")
    if predicts_next(model):
        session = ReferenceEngine(model).session(1, len(run.trace.ids))
        last = session.prefill([0], [run.trace.ids])[0].copy()
        return {step: last if np.ndim(run.trace[step]) == 1 else last[:, None]}
    segments = run.trace.graph.segments
    kinds = None if segments is None else [list(segments)]
    (states,) = hidden_states(model, [run.trace.ids], segments=kinds)
    return {step: mlm_logits(model, states).T}


def _end_with(parent: int) -> None:
    """End this process when the server has ended, by whatever."""
    while os.getppid() == parent:
        time.sleep(SECONDS)
    os._exit(1)


def main() -> None:
    """Run the network of a model on what comes in, and give its outputs by the paper's symbols."""
    if hasattr(os, "nice"):
        os.nice(10)  # whoever uses the page comes first
    threading.Thread(target=_end_with, args=(int(sys.argv[2]),), daemon=True).start()
    import torch

    from vesalius.verification.peers import batch_of
    from vesalius.verification.taps import columns, outputs

    torch.set_num_threads(1)
    with np.load(io.BytesIO(sys.stdin.buffer.read())) as file:
        given = dict(file)
    model = load(sys.argv[1])
    batch = [batch_of(model, given["given"])]
    if "second" in given:
        batch.append(torch.tensor(given["second"][None]))
    with torch.no_grad():
        found = outputs(model, model.network(*batch))
    named = set(map(str, given["names"]))
    kept = {name: columns(value).numpy() for name, value in found.items() if name in named}
    last: Any = {n: v[:, -1:] if v.ndim == 2 and v.size > MANY else v for n, v in kept.items()}
    np.savez(sys.stdout.buffer, **last)


if __name__ == "__main__":
    main()
