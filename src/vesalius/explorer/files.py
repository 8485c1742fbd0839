"""Pictures and series for the page: files that it brings, examples, and what a run read of them."""

from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from vesalius.data.examples import shelf
from vesalius.errors import WrongKind
from vesalius.explorer import forecasts, images
from vesalius.explorer.answers import ASK, as_json, as_values
from vesalius.explorer.runs import Runs


def routes(app: FastAPI, runs: Runs) -> None:
    def added(model: str, name: str, data: bytes) -> dict[str, Any]:
        entry = runs.catalogue[model]
        with entry.at_work() as loaded:
            upload = runs.uploads.add(data, name)
            return {"upload": upload.key, "count": len(runs.uploads.read(loaded, upload.key))}

    @app.post("/api/uploads")
    async def upload(request: Request, model: str, name: str = "") -> Any:
        return await run_in_threadpool(added, model, name, await request.body())

    @app.get("/api/models/{key}/examples/{number}")
    def example(request: Request, key: str, number: int) -> Any:
        with runs.catalogue[key].at_work() as model:
            found = shelf(model)[number]
        if found.values.dtype == np.uint8:
            return Response(images.png(found.values), media_type="image/png")
        values = found.values
        if found.follows is not None and (scaling := forecasts.scaling_of(model)) is not None:
            values = scaling.apply(values.T).T  # so that channels of any unit can be seen together
        return as_values(request, f"{key}/{number}", values, "", "")

    @app.get("/api/runs/{key}/picture")
    def picture(key: str) -> Any:
        return Response(images.read(runs[key]), media_type="image/png", headers=ASK)

    @app.get("/api/runs/{key}/series")
    def series(request: Request, key: str) -> Any:
        run = runs[key]
        given = run.trace.graph.given
        if given is None or given.ndim != 2:
            raise WrongKind(f"this run of {run.trace.family} is of no series")
        return as_values(request, f"{key}/series", given, "", "")

    @app.get("/api/runs/{key}/forecast")
    def forecast(key: str, channel: int = 0) -> Any:
        run = runs[key]
        with run.entry.at_work():
            return as_json(forecasts.course(run, channel))

    @app.get("/api/runs/{key}/restored")
    def restored(key: str, seed: int = 0, temperature: float = 1.0) -> Any:
        data = images.restored(runs[key], seed, temperature)
        return Response(data, media_type="image/png", headers=ASK)
