"""Files that a page brought: kept by what they hold, and read as the library reads files.

What a file is follows from its first bytes, never from the name that it came with.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vesalius.data.inputs import FILES, Input, read_inputs, read_pixels
from vesalius.errors import EmptySequence, VesaliusError, WrongKind
from vesalius.explorer.keeping import Kept
from vesalius.families import family_of
from vesalius.model import Model

BYTES = 1 << 26
"""Of all files that are kept; the one least lately asked for goes first."""
STARTS = {b"\x89PNG\r\n\x1a\n": ".png", b"\xff\xd8\xff": ".jpg", b"\x93NUMPY": ".npy"}
"""How files of pictures and arrays begin."""
NAMED = 80
"""Characters of a name that are told."""


class UnknownUpload(VesaliusError):
    """A file that is not kept any more, or never was; choosing it again brings it back."""


@dataclass(frozen=True)
class Upload:
    """A file by the hash of its bytes, with the name that it had where it came from."""

    key: str
    name: str
    data: bytes

    @property
    def suffix(self) -> str:
        """The ending that its content asks for."""
        for start, suffix in STARTS.items():
            if self.data.startswith(start):
                return suffix
        return ".ts" if re.search(rb"^\s*@data\b", self.data, re.M | re.I) else ".csv"


class Uploads:
    """The files that are kept, by their hashes."""

    def __init__(self) -> None:
        self._held: Kept[str, Upload] = Kept(BYTES, lambda upload: len(upload.data))

    def add(self, data: bytes, name: str = "") -> Upload:
        """Keep a file; the same bytes are the same file, whatever it is called."""
        if not data:
            raise EmptySequence("the file is empty; expected a picture or a series")
        name = re.sub(r"[^\w. -]", "_", Path(name).name)[-NAMED:] or "the file"
        found = Upload(hashlib.sha256(data).hexdigest()[:24], name, data)
        self._held.put(found.key, found)
        return found

    def __getitem__(self, key: str) -> Upload:
        found = self._held.get(key)
        if found is None:
            raise UnknownUpload("this file is not kept here any more; choose it once again")
        return found

    def read(self, model: Model, key: str, invert: bool = False) -> list[Input]:
        """What a file holds, ready for a model; a complaint calls the file by its own name."""
        upload = self[key]
        reads = family_of(model.config).reads
        if reads == "text":
            raise WrongKind(f"this {model.family} reads text, not files")
        what, _, suffixes = FILES["series" if reads == "series" else "images"]
        if upload.suffix not in suffixes:
            raise WrongKind(f"{upload.name} is no {_kind(what)}; {_expected(model)}")
        with TemporaryDirectory(prefix="vesalius-") as folder:
            file = Path(folder) / f"upload{upload.suffix}"
            file.write_bytes(upload.data)
            try:
                if reads == "pixels":
                    return [read_pixels(model, file, invert)]
                return read_inputs(model, file, invert=invert)
            except VesaliusError as error:
                raise type(error)(str(error).replace(str(file), upload.name)) from error


def _kind(what: str) -> str:
    return what.partition(" ")[2]


def _expected(model: Model) -> str:
    what, _, suffixes = FILES["series" if family_of(model.config).reads == "series" else "images"]
    return f"{model.family} reads {what}: {', '.join(suffixes)}"


def accepted(model: Model) -> list[str]:
    """The endings of files that a model reads; none where it reads text."""
    reads: Any = family_of(model.config).reads
    if reads == "text":
        return []
    return list(FILES["series" if reads == "series" else "images"][2])
