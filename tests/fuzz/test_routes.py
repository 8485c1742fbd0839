"""A few requests to the explorer's routes, the same each time: no 5xx, whatever they hold."""

from random import Random

import pytest

from fuzz import watching
from fuzz.routes import Routes
from vesalius.errors import VesaliusError
from vesalius.explorer import agreement, runs

CASES = 60


@pytest.fixture(scope="module")
def routes(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((runs, "BYTES"), (runs, "ANSWERS"), (agreement, "find_spec")):
            patch.setattr(module, name, getattr(module, name))  # so that it is what it was again
        found = Routes(tmp_path_factory.mktemp("routes"))
        yield found
        found.thread.shutdown()
        found.loop.close()


def answered(routes, seed, place):
    try:
        routes.case(Random(seed), place)()
    except VesaliusError:
        return False
    return True


def test_requests_are_answered_or_refused(routes, tmp_path):
    told = [answered(routes, f"routes {number}", tmp_path) for number in range(CASES)]
    assert {*told} == {True, False}


def test_a_route_that_fails_is_found_though_nobody_named_it(routes, tmp_path, caplog):
    @routes.app.post("/api/runs/{key}/broken")
    def broken(key: str, depth: int) -> int:
        return 1 // (depth - 3)

    try:
        with pytest.raises(watching.Finding, match=r"500 to POST /api/runs/\{key\}/broken"):
            [answered(routes, number, tmp_path) for number in range(100_000)]
    finally:
        routes.app.router.routes.pop()
