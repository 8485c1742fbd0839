"""Sums of products in the processor's vectors, written for LLVM, which Numba compiles with.

``tile(r, b, u, …)`` gives a function for compiled code: a register tile, which multiplies r rows of
a matrix with b vectors, each sum in u accumulators. Matrices are float32 or int8. Vectors are
float32, or with int8 16-bit integers: x86 adds up their products in pairs, four times as fast. Left
to itself LLVM widens int8 weights one by one, at a third of the memory bandwidth.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

LANES = 8
"""Sums in a vector of 256 bits; Zen 4 is no faster with 512."""
PADDING = 64
"""Rows of matrices are padded with zeros to a multiple of this: no tile has a remainder."""
PREFETCH_BYTES, CACHE_LINE = 512, 64
"""How far ahead software prefetch asks for weights, and how many bytes it gets at once."""
_NAMED = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
_FEATURES = _NAMED.split(",")  # of the processor that Numba compiles for
PAIRS = "+avx2" in _FEATURES
"""Whether the processor adds up products of 16-bit integers in pairs (pmaddwd)."""
ROWS, VECTORS = (6, 4) if "+avx512vl" in _FEATURES else (4, 3)
"""The size of a tile: its sums take three quarters of the processor's registers."""

BYTE, SHORT, INT, FLOAT = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.FloatType()
FLOATS = ir.VectorType(FLOAT, LANES)
FAST = ("contract", "reassoc")


def tile(rows: int, vectors: int, chains: int, prefetches: bool) -> Callable[..., None]:
    """``f(weight, i, x, b, out)``: out[b + j, i + r] becomes row i + r of weight times x[b + j].

    It may prefetch the weights that come next.
    """

    @intrinsic
    def product(context: Any, weight: Any, i: Any, x: Any, b: Any, out: Any) -> Any:
        assert weight.layout == x.layout == out.layout == "C", "rows follow each other"
        pairs = x.dtype == types.int16

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            made = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args[::2], values[::2], strict=True)
            ]
            firsts = (values[1], values[3])
            whole = signature.args[0].dtype == types.float32
            size = rows, vectors, chains
            _Tile(builder, made, firsts, size, prefetches, whole, pairs).write()
            return context.get_dummy_value()

        return types.void(weight, i, x, b, out), generate

    return product


class _Tile:
    """One loop over the columns, with all sums in registers, and the stores after it."""

    def __init__(
        self,
        builder: Any,
        arrays: list[Any],
        firsts: tuple[Any, Any],
        size: tuple[int, int, int],
        prefetches: bool,
        whole: bool,
        pairs: bool,
    ) -> None:
        self.builder, (self.weight, self.x, self.out) = builder, arrays
        (self.i, self.b), (self.rows, self.vectors, self.chains) = firsts, size
        self.index, self.prefetches = self.i.type, prefetches
        self.width = cgutils.unpack_tuple(builder, self.weight.shape)[1]
        self.pairs, self.element, self.size = pairs, *((FLOAT, 4) if whole else (BYTE, 1))
        self.columns = 2 * LANES if pairs else LANES
        self.sum = ir.VectorType(INT if pairs else FLOAT, LANES)

    def write(self) -> None:
        builder, before = self.builder, self.builder.block
        matrix = [self._row(self.weight, self.i, r, self.element) for r in range(self.rows)]
        kind = SHORT if self.pairs else FLOAT
        vectors = [self._row(self.x, self.b, j, kind) for j in range(self.vectors)]
        loop, end = builder.append_basic_block("columns"), builder.append_basic_block("sums")
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(self.index)
        k.add_incoming(self._number(0), before)
        sums = [builder.phi(self.sum) for _ in range(self.rows * self.vectors * self.chains)]
        added = self._step(k, matrix, vectors, kind, sums)
        following = builder.add(k, self._number(self.columns * self.chains))
        k.add_incoming(following, loop)
        for phi, value in zip(sums, added, strict=True):
            phi.add_incoming(ir.Constant(self.sum, None), before)
            phi.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, self.width), loop, end)
        builder.position_at_end(end)
        self._store(added)

    def _step(
        self, k: Any, matrix: list[Any], vectors: list[Any], kind: Any, sums: list[Any]
    ) -> list[Any]:
        """The sums with the next columns added, in the order chain, row, vector."""
        builder, added = self.builder, list[Any]()
        for chain in range(self.chains):
            at = builder.add(k, self._number(chain * self.columns))
            xs = [self._load(vector, at, kind) for vector in vectors]
            new_line = chain * self.columns * self.size % CACHE_LINE == 0
            for row in matrix:
                if new_line and self.prefetches:
                    self._prefetch(row, at)
                w = self._widened(self._load(row, at, self.element))
                added += [self._add(sums[len(added) + j], w, x) for j, x in enumerate(xs)]
        return added

    def _add(self, total: Any, w: Any, x: Any) -> Any:
        builder = self.builder
        if not self.pairs:
            return builder.fadd(total, builder.fmul(w, x, flags=FAST), flags=FAST)
        kind = ir.FunctionType(self.sum, [w.type, x.type])
        pairs = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pmadd.wd")
        return builder.add(total, builder.call(pairs, [w, x]))

    def _widened(self, w: Any) -> Any:
        if self.pairs:
            return self.builder.sext(w, ir.VectorType(SHORT, self.columns))
        if self.element is FLOAT:
            return w
        wide = self.builder.sext(w, ir.VectorType(INT, self.columns))
        return self.builder.sitofp(wide, self.sum)

    def _store(self, sums: list[Any]) -> None:
        builder, count = self.builder, self.rows * self.vectors
        totals = []
        for index in range(count):
            parts = sums[index::count]
            if self.pairs:
                parts = [builder.sitofp(part, FLOATS) for part in parts]
            totals.append(reduce(partial(builder.fadd, flags=FAST), parts))
        # Row after row of one vector, so that stores go to neighbouring addresses.
        order = [(r, j) for j in range(self.vectors) for r in range(self.rows)]
        for first in range(0, count, 4):
            places = order[first : first + 4]
            four = [totals[r * self.vectors + j] for r, j in places]
            for (r, j), value in zip(places, _across(builder, four), strict=True):
                row = self._row(self.out, self.b, j, FLOAT)
                column = builder.add(self.i, self._number(r))
                builder.store(value, builder.gep(row, [column], source_etype=FLOAT))

    def _row(self, array: Any, first: Any, offset: int, element: Any) -> Any:
        builder = self.builder
        width = cgutils.unpack_tuple(builder, array.shape)[1]
        start = builder.mul(builder.add(first, self._number(offset)), width)
        return builder.gep(array.data, [start], source_etype=element)

    def _load(self, row: Any, at: Any, element: Any) -> Any:
        builder, kind = self.builder, ir.VectorType(element, self.columns)
        loaded = builder.load(builder.gep(row, [at], source_etype=element), typ=kind)
        loaded.align = 4 if element is FLOAT else element.width // 8
        return loaded

    def _prefetch(self, row: Any, at: Any) -> None:
        """Software prefetch: ahead in a single row, or the same columns of the next tile."""
        builder = self.builder
        rows = builder.mul(self.width, self._number(self.rows))
        distance = self._number(PREFETCH_BYTES // self.size) if self.rows == 1 else rows
        later = builder.add(at, distance)
        place = builder.gep(row, [later], source_etype=self.element)
        kind = ir.FunctionType(ir.VoidType(), [place.type, INT, INT, INT])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # Into the L2 cache: L1 has no space for more rows.
        to_read, level, data = (ir.Constant(INT, value) for value in (0, 2, 1))
        builder.call(fetch, [place, to_read, level, data])

    def _number(self, value: int) -> Any:
        return ir.Constant(self.index, value)


def _across(builder: Any, vectors: list[Any]) -> list[Any]:
    """The sum of each vector's numbers; four vectors at once take a third of the instructions."""
    if len(vectors) < 4:
        kind = ir.FunctionType(FLOAT, [FLOAT, FLOATS])
        name = f"llvm.vector.reduce.fadd.v{LANES}f32"
        reduction = cgutils.get_or_insert_function(builder.module, kind, name)
        zero = ir.Constant(FLOAT, 0.0)
        return [builder.call(reduction, [zero, v], fastmath=("reassoc",)) for v in vectors]

    def folded(a: Any, b: Any, *masks: list[int]) -> Any:
        one, two = (
            builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT, len(mask)), mask))
            for mask in masks
        )
        return builder.fadd(one, two, flags=FAST)

    # As the unpack instructions interleave a and b, within each half.
    low, high = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
    ab, cd = (folded(*vectors[i : i + 2], low, high) for i in (0, 2))
    abcd = folded(ab, cd, [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
    sums = folded(abcd, abcd, [0, 1, 2, 3], [4, 5, 6, 7])
    return [builder.extract_element(sums, ir.Constant(INT, i)) for i in range(4)]
