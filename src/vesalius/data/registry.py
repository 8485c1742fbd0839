"""Corpora by name: their titles, licences and sources; their files, found or fetched.

The facts stand in ``registry.toml``; a file is known by its SHA-256. Reading files is left to other
modules. Only ``get`` fetches, and only over https.
"""

import hashlib
import os
import tomllib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from vesalius.arguments import Progress, silent
from vesalius.errors import BrokenFile, NotFetched, UnknownCorpus, Unreachable, Unwritable, nearest
from vesalius.machine import cache_folder

SILENCE = 30.0
"""Seconds without a byte after which an address counts as unreachable."""

PIECE = 1 << 18


@dataclass(frozen=True)
class Form:
    """One way in which the bytes of a file occur."""

    size: int
    sha256: str


@dataclass(frozen=True)
class File:
    """A file of a corpus; its addresses give the first form, the others hold the same content."""

    path: str
    forms: tuple[Form, ...]
    addresses: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return self.forms[0].size

    @property
    def sha256(self) -> str:
        return self.forms[0].sha256


Opener = Callable[[str], IO[bytes]]


@dataclass(frozen=True)
class Corpus:
    """A named corpus. One without files needs none: it is built in."""

    name: str
    title: str
    kind: str
    licence: str
    source: str
    files: tuple[File, ...]
    places: tuple[str, ...] = ()
    """Folders in which a system's package puts the files, by their bare names."""
    wrapped: bool = False
    """Whether the lines of its texts are broken to a width; readers then join them again."""
    classes: tuple[str, ...] = ()
    """What its labels are called, where its files do not say it."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def fetchable(self) -> bool:
        return bool(self.files) and all(file.addresses for file in self.files)

    def to_json(self) -> dict[str, Any]:
        facts = {"name": self.name, "title": self.title, "kind": self.kind, "bytes": self.size}
        return facts | {
            "licence": self.licence,
            "source": self.source,
            "files": len(self.files),
            "where": whereabouts(self),
        }


@dataclass(frozen=True)
class Check:
    """What there is of a file: it is "whole", "damaged" or "missing"."""

    file: File
    path: Path | None
    state: str

    def to_json(self) -> dict[str, Any]:
        file = self.file
        return {
            "path": file.path,
            "bytes": file.size,
            "sha256": file.sha256,
            "addresses": list(file.addresses),
            "found": None if self.path is None else str(self.path),
            "state": self.state,
        }


def corpora() -> list[Corpus]:
    """All corpora, in the order of the registry."""
    return list(_registry().values())


def corpus(name: str) -> Corpus:
    """The corpus of this name."""
    if name not in _registry():
        raise UnknownCorpus(f"unknown corpus {name!r}; {nearest(name, _registry())}")
    return _registry()[name]


@cache
def _registry() -> dict[str, Corpus]:
    with Path(__file__).with_name("registry.toml").open("rb") as file:
        return {name: _read(name, entry) for name, entry in tomllib.load(file).items()}


def _read(name: str, entry: dict[str, Any]) -> Corpus:
    files = tuple(
        File(
            row["path"],
            tuple(Form(form["bytes"], form["sha256"]) for form in (row, *row.get("also", ()))),
            tuple(row.get("addresses", ())),
        )
        for row in entry.pop("files")
    )
    for key in ("places", "classes"):
        entry[key] = tuple(entry.get(key, ()))
    return Corpus(name, files=files, **entry)


def folders() -> list[Path]:
    """Where corpora are looked for: in VESALIUS_DATA, then in the cache."""
    own = os.environ.get("VESALIUS_DATA")
    return [*([Path(own)] if own else []), _fetched()]


def _fetched() -> Path:
    return cache_folder() / "data"


def locate(name: str) -> list[Path]:
    """The files of a corpus in the order of the registry, if all are here in the right size.

    A corpus that is built in has none.
    """
    known = corpus(name)
    found = [_find(known, file) for file in known.files]
    if None in found:
        raise NotFetched(_how_to_get(known, found))
    return [path for path in found if path]


def _find(known: Corpus, file: File) -> Path | None:
    sizes = {form.size for form in file.forms}
    fitting = (path for path in _present(known, file) if path.stat().st_size in sizes)
    return next(fitting, None)


def _present(known: Corpus, file: File) -> Iterator[Path]:
    """Everything that bears the file's name where it may be, of whatever content."""
    paths = [folder / file.path for folder in folders()]
    paths += [Path(place) / Path(file.path).name for place in known.places]
    return (path for path in paths if path.is_file())


def _how_to_get(known: Corpus, found: list[Path | None]) -> str:
    gaps = [file for file, path in zip(known.files, found, strict=True) if path is None]
    first = gaps[0]
    more = f" and {len(gaps) - 1} more" if len(gaps) > 1 else ""
    looked = ", ".join(map(str, (*folders(), *known.places)))
    what = f"{known.name} is not here: no {first.path} of {first.size:,} bytes{more} in {looked}"
    if known.fetchable:
        return f"{what}; fetch it with: vesalius data get {known.name}"
    return (
        f"{what}. It cannot be fetched: it is from {known.source}. {_by_hand(known, first)}, "
        f"or use files of your own in its place"
    )


def _by_hand(known: Corpus, file: File) -> str:
    """What to do with a file that comes another way."""
    return (
        f"Put the file with SHA-256 {file.sha256} at {_fetched() / file.path}, or set "
        f"VESALIUS_DATA to a folder that holds {file.path} "
        f"(vesalius data info {known.name} lists all)"
    )


def whereabouts(known: Corpus) -> str:
    """What holds a corpus, as "cache"; or "built in", "to fetch" or "own copy needed"."""
    found = [_find(known, file) for file in known.files]
    if None in found:
        return "to fetch" if known.fetchable else "own copy needed"
    holders = (_holder(file, path) for file, path in zip(known.files, found, strict=True) if path)
    return ", ".join(dict.fromkeys(holders)) or "built in"


def _holder(file: File, path: Path) -> str:
    if path == _fetched() / file.path:
        return "cache"
    own = os.environ.get("VESALIUS_DATA")
    return "VESALIUS_DATA" if own and path == Path(own) / file.path else str(path.parent)


def verify(name: str) -> list[Check]:
    """Hash every file of a corpus that is here, and say of each whether it is what it should be."""
    known = corpus(name)
    found = [_find(known, file) or next(_present(known, file), None) for file in known.files]
    return list(map(_check, known.files, found))


def _check(file: File, path: Path | None) -> Check:
    if path is None:
        return Check(file, None, "missing")
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    whole = digest in {form.sha256 for form in file.forms}
    return Check(file, path, "whole" if whole else "damaged")


def get(name: str, progress: Progress = silent) -> list[Path]:
    """The files of a corpus, fetched into the cache where they are not here already.

    What is here is hashed, and fetched anew if the cache's own copy is damaged. Progress is told
    by file, in bytes.
    """
    return _get(corpus(name), progress, _open)


def _get(known: Corpus, progress: Progress, open_: Opener) -> list[Path]:
    found = [_find(known, file) for file in known.files]
    if None in found and not known.fetchable:
        raise NotFetched(_how_to_get(known, found))
    return [
        path if path and _usable(file, path) else _fetch(known, file, progress, open_)
        for file, path in zip(known.files, found, strict=True)
    ]


def _usable(file: File, path: Path) -> bool:
    if _check(file, path).state == "whole":
        return True
    if path == _fetched() / file.path and file.addresses:
        return False
    raise BrokenFile(f"{path} is damaged: its SHA-256 is not {file.sha256}; remove or replace it")


def _fetch(known: Corpus, file: File, progress: Progress, open_: Opener) -> Path:
    """Fetch a file into the cache, from the first of its addresses that answers."""
    target = _fetched() / file.path
    for address in file.addresses:
        try:
            _download(address, file, target, progress, open_)
            return target
        except Unreachable as error:
            failure = error
    raise Unreachable(
        f"{failure}. Try again later, or fetch it elsewhere. {_by_hand(known, file)}"
    ) from failure


def _download(address: str, file: File, target: Path, progress: Progress, open_: Opener) -> None:
    """Stream to a file beside the target, hashing; only what is right takes the target's place."""
    digest, size = hashlib.sha256(), 0
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as stream, closing(_pieces(address, open_)) as pieces:
            for piece in pieces:
                stream.write(piece)
                digest.update(piece)
                size += len(piece)
                progress(file.path, size, file.size)
                if size > file.size:
                    break
        if (size, digest.hexdigest()) != (file.size, file.sha256):
            more = "more than " if size > file.size else ""
            raise BrokenFile(
                f"{address} gave another file than was expected, which was not kept: expected "
                f"{file.size:,} bytes with SHA-256 {file.sha256}, got {more}"
                f"{min(size, file.size):,} bytes with {digest.hexdigest()}"
            )
        part.replace(target)
    except Unreachable:
        raise
    except OSError as error:
        raise Unwritable(
            f"cannot write {target}: {error.strerror}; set VESALIUS_CACHE to another folder"
        ) from error
    finally:
        with suppress(OSError):  # where its folder could not be made, that is reported already
            part.unlink(missing_ok=True)


def _pieces(address: str, open_: Opener) -> Generator[bytes, None, None]:
    try:
        with open_(address) as answer:
            while piece := answer.read(PIECE):
                yield piece
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(error, HTTPError):
            error.close()
        raise Unreachable(f"{address} cannot be fetched: {reason}") from error


def _open(address: str) -> IO[bytes]:
    request = Request(_secure(address), headers={"User-Agent": "vesalius"})
    answer: IO[bytes] = build_opener(OnlySecure).open(request, timeout=SILENCE)
    return answer


class OnlySecure(HTTPRedirectHandler):
    """Follows an address to another only over https."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        try:
            return super().redirect_request(req, fp, code, msg, headers, _secure(newurl))
        except Unreachable:
            fp.close()
            raise


def _secure(address: str) -> str:
    if urlsplit(address).scheme != "https":
        raise Unreachable(f"{address} is no https address, and only those are asked")
    return address
