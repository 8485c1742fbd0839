"""The steps of a family: where its network has them, what they are inside of, what can be cut.

A row of this table stands next to those of the parameters in ``checkpoints.layout``: hooks,
``verify``, figures and the explorer's page look a step up here, and none knows a network by heart.
"""

from dataclasses import dataclass

from vesalius.families.blocks import BlockOptions


@dataclass(frozen=True)
class Tap:
    """Where a network has a step: what a module gives, or what it is given."""

    module: str
    """Its path; ``{l}`` is the layer, counted from zero."""
    before: bool = False
    """Whether the step is what the module is given."""
    view: str = "columns"
    """How the paper sees the tensor: columns, heads, transposed or flat; scores are computed."""
    call: int | None = None
    """Which call of the module, where there are several, counted from zero."""


@dataclass(frozen=True)
class Step:
    """One row: a step such as ``q[l,m]``."""

    name: str
    tap: Tap | None = None
    within: str = ""
    """The sublayer's result in whose box the figure has it."""
    cut: str = ""
    """What is set to zero where it is to be cut."""

    @property
    def symbol(self) -> str:
        return self.name.partition("[")[0]


def after(name: str, module: str, view: str = "columns", call: int | None = None) -> Step:
    """A step that a module gives."""
    return Step(name, Tap(module, view=view, call=call))


def before(name: str, module: str, view: str = "columns") -> Step:
    """A step that a module is given."""
    return Step(name, Tap(module, before=True, view=view))


EMBEDDED = (after("X", "embedding"),)
PLACED = (before("X", "positions"), after("Lambda", "positions", "transposed"))


def block_steps(block: BlockOptions) -> tuple[Step, ...]:
    """The steps of every block (24 to 38)."""
    attention, feedforward, head = "blocks.{l}.attention", "blocks.{l}.feedforward", "P[l,m]"

    def in_head(name: str, tap: Tap) -> Step:
        return Step(name, tap, within="A[l]", cut=head)

    norms: tuple[Step, ...]
    if block.order == "pre":
        norms = (
            after("H_bar[l]", "blocks.{l}.attention_norm"),
            before("C[l]", "blocks.{l}.feedforward_norm"),
            Step("C_bar[l]", Tap("blocks.{l}.feedforward_norm"), cut="D[l]"),
        )
    else:
        norms = (after("C[l]", "blocks.{l}.attention_norm"),)
    return (
        before("H[0]", "blocks.0"),
        *(
            in_head(f"{name[0]}[l,m]", Tap(f"{attention}.{name}", view="heads"))
            for name in ("query", "key", "value")
        ),
        in_head("mu[l,m]", Tap(attention, view="scores")),
        in_head(head, Tap(f"{attention}.output", before=True, view="heads")),
        after("A[l]", attention),
        *norms,
        Step("F[l]", Tap(f"{feedforward}.outer", before=True), within="D[l]", cut="D[l]"),
        Step("D[l]", Tap(feedforward), cut="D[l]"),
        after("H[l]", "blocks.{l}"),
    )
