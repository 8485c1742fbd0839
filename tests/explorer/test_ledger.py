"""The ledger counts as the library does, for every family and with any setting changed."""

import pytest

import vesalius as vs
from vesalius.explorer.ledger import ledger
from vesalius.families import FAMILIES, configuration


def leaves(parts):
    for part in parts:
        yield from leaves(part["parts"]) if part["parts"] else [part]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("changes", [{}, {"layers": 3}], ids=["as it is", "three layers"])
def test_the_tree_adds_up_to_the_count_and_the_arrays_to_its_leaves(family, changes):
    told = ledger(configuration(family), changes, None, 2)
    found = vs.count(family, **changes)
    assert told["total"] == found.total
    assert sum(leaf["count"] * leaf["times"] for leaf in leaves(told["parts"])) == found.total
    for leaf in leaves(told["parts"]):
        assert sum(a["count"] * a["times"] for a in leaf["arrays"]) == leaf["count"], leaf["path"]
    costs = vs.cost(family, batch=2, **changes).to_json()
    assert {
        name: told["cost"][name] for name in ("forward", "training_step", "training_bytes")
    } == {name: costs[name] for name in ("forward", "training_step", "training_bytes")}
