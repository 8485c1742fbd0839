"""Keras's arrays in HDF5, read in a process of their own.

One flipped bit makes the HDF5 library read in circles, deaf to interrupts, ask for terabytes, or
crash. So a child reads the file, in bounded time and memory, and sends plain bytes; it can be
ended at any moment. The child is this module, which needs NumPy and h5py alone.
"""

import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any, BinaryIO

import numpy as np

from vesalius.checkpoints.plain import require_file
from vesalius.equations.parameters import Array
from vesalius.errors import BrokenFile
from vesalius.machine import require

INSIDE = "model.weights.h5"
"""The weights in a .keras archive, and in a folder of KerasHub's presets."""
HEAD = "mlm_head"
VARIABLES = {"norm": ("gamma", "beta"), "embedding": ("embeddings",), HEAD: ("output_bias",)}
"""What the variables of layers are called, by how the layer's name ends."""
WORK, FASTEST = 20, 20 << 20
"""Seconds of the processor that any file may take, and bytes that one more second is for."""
PATIENCE, SLOWEST = 120, 1 << 20
"""Seconds of the clock, and bytes per second that a slow disk or network gives."""
ROOM = 2 << 30
"""Bytes of memory that the child may use besides a few times the file."""
LONGEST = 1 << 24
"""Bytes of the line that lists the arrays: a hundred for each, and hundreds of layers."""


def arrays(file: Path) -> dict[str, Array]:
    """The arrays of a .keras or .weights.h5 file, by the names of the layers that they stand in."""
    require("h5py")
    require_file(file)
    size = file.stat().st_size
    seconds = WORK + size // FASTEST
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, str(file.absolute()), str(seconds)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    late = Timer(PATIENCE + size / SLOWEST, child.kill)
    late.daemon = True
    try:
        late.start()
        assert isinstance(child.stdout, io.BufferedReader)
        return _received(file, size, child.stdout)
    except EOFError:
        raise BrokenFile(
            f"{file} cannot be read as Keras's weights: it is damaged, and HDF5's library "
            f"{_ending(child.wait())} over it; expected a file as Keras saves it"
        ) from None
    finally:
        late.cancel()
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def _ending(code: int) -> str:
    """What the library did in a child that sent too little."""
    stopped = (getattr(signal, name, None) for name in ("SIGKILL", "SIGXCPU"))
    return "works without end" if -code in stopped else f"crashes (exit code {code})"


def _received(file: Path, size: int, stream: io.BufferedReader) -> dict[str, Array]:
    """What the child sends: a line of JSON, and the arrays in its order."""
    line = stream.readline(LONGEST)
    if not line.endswith(b"\n"):
        raise EOFError
    told = json.loads(line)
    if "error" in told:
        raise BrokenFile(told["error"])
    found: dict[str, Array] = {}
    for name, dtype, shape in told["arrays"]:
        found[name] = np.empty(shape, dtype)
        into = _bytes(found[name])
        if stream.readinto(into) < len(into):
            raise EOFError
    return found


def _bytes(array: Array) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8).data)


# ------------------------------------------------------------------------------------ in the child


def main() -> None:
    """Send the arrays of a file to whoever started this process."""
    file, out = Path(sys.argv[1]), sys.stdout.buffer
    _limit(int(sys.argv[2]), ROOM + 4 * file.stat().st_size)
    try:
        found = _read(file)
    except BrokenFile as error:
        out.write(json.dumps({"error": str(error)}).encode() + b"\n")
        return
    listed = [(name, array.dtype.str, array.shape) for name, array in found.items()]
    out.write(json.dumps({"arrays": listed}).encode() + b"\n")
    for array in found.values():
        out.write(_bytes(np.ascontiguousarray(array)))


def _limit(seconds: int, room: int) -> None:
    """Bound the processor's time and the memory of this process, where the system can."""
    import h5py  # noqa: F401  (with the memory that it takes itself)

    try:
        import resource
    except ImportError:  # not on Windows, where the parent's clock alone counts
        return
    bounds = {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: seconds}
    with suppress(OSError):  # Linux alone says what is taken, and keeps to the bound
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        bounds[resource.RLIMIT_AS] = pages * resource.getpagesize() + room
    for kind, bound in bounds.items():
        with suppress(OSError, ValueError):  # where a lower one holds already
            resource.setrlimit(kind, (bound, resource.getrlimit(kind)[1]))


def _read(file: Path) -> dict[str, Array]:
    import h5py

    try:
        with file.open("rb") as stream:
            inside: BinaryIO = stream if file.suffix != ".keras" else _unzipped(file)
            with h5py.File(inside, "r") as held:
                return dict(_named(file, held, h5py, set()))
    except BrokenFile:
        raise
    except MemoryError as error:
        raise BrokenFile(
            f"{file} cannot be read as Keras's weights: it asks for more memory than a file of "
            f"its size needs"
        ) from error
    # h5py and zipfile raise whatever a damaged file leads them to.
    except Exception as error:
        raise BrokenFile(f"{file} cannot be read as Keras's weights: {error}") from error


def _unzipped(file: Path) -> io.BytesIO:
    try:
        with zipfile.ZipFile(file) as archive:
            if archive.getinfo(INSIDE).compress_type != zipfile.ZIP_STORED:
                raise BrokenFile(f"{file}: {INSIDE} is compressed; expected it as Keras stores it")
            return io.BytesIO(archive.read(INSIDE))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise BrokenFile(f"{file} cannot be read as Keras's archive: {error}") from error


def _named(
    file: Path, group: Any, h5py: Any, seen: set[int], path: str = ""
) -> Iterator[tuple[str, Array]]:
    """The arrays below a group, by the names of the layers that they stand in."""
    for key in group:
        child = group.get(key, getlink=True)
        if type(child).__name__ != "HardLink":
            raise BrokenFile(f"{file} points elsewhere with {key!r}; expected arrays of its own")
        below = _once(file, group[key], h5py, seen)
        if isinstance(below, h5py.Dataset) or key == "optimizer":
            continue
        if key == "vars":
            yield from _variables(file, below, h5py, seen, path)
        else:
            name = below["vars"].attrs.get("name") if "vars" in below else None
            # What holds layers is not part of their paths: a list of them, or the backbone.
            outer = name is None or re.search(r"_(backbone|lm)(_\d+)?$", str(name))
            inner = path if outer else f"{path}{name}/"
            yield from _named(file, below, h5py, seen, inner)


def _once(file: Path, held: Any, h5py: Any, seen: set[int]) -> Any:
    """A part of a file, if it was not met before: parts within themselves have no end."""
    place = h5py.h5o.get_info(held.id).addr
    if place in seen:
        raise BrokenFile(f"{file} holds {held.name} in two places; expected each part once")
    seen.add(place)
    return held


def _variables(
    file: Path, group: Any, h5py: Any, seen: set[int], path: str
) -> Iterator[tuple[str, Array]]:
    layer = path.rstrip("/").rpartition("/")[2]
    kinds = next((k for end, k in VARIABLES.items() if layer.endswith(end)), ("kernel", "bias"))
    for key in group:
        held = _once(file, group[key], h5py, seen)
        # A few bytes can claim to be terabytes, or lie in another file.
        whole = held.id.get_storage_size() == math.prod(held.shape) * held.dtype.itemsize
        if not whole or held.external or held.dtype.kind not in "fiub":
            raise BrokenFile(f"{file} holds only a part of {path}{key}; expected dense arrays")
        kind = kinds[int(key)] if int(key) < len(kinds) else key
        yield f"{path}{kind}", np.asarray(held[()])


if __name__ == "__main__":
    main()
