"""A run's folder: its lock, and checkpoints that are there whole or not at all.

A checkpoint is written beside the others, brought to the disk, and then given its name. Its
manifest holds the hashes of its files. It is a model that ``load`` reads, with the optimiser's
state and the run's position beside it.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vesalius.checkpoints import files
from vesalius.checkpoints.plain import read_json
from vesalius.errors import BrokenFile, RunLocked, SaveFailed

CHECKPOINTS = "checkpoints"
MANIFEST = "manifest.json"
POSITION = "position.json"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the run's folder; a killed process leaves no lock.

    A folder that was made for this and holds nothing in the end is removed.
    """
    from filelock import FileLock, Timeout

    made = [path for path in (folder, *folder.parents) if not path.exists()]
    file = folder / ".lock"
    lock = FileLock(file)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
        while not file.exists():  # its last owner removed the file after it was opened here
            lock.release()
            lock.acquire(timeout=0)
    except Timeout as error:
        raise RunLocked(
            f"another process is writing to {folder}; wait for it or stop it"
        ) from error
    except OSError as error:
        raise SaveFailed(f"{folder} cannot be written to: {error.strerror or error}") from error
    try:
        yield
    finally:
        with suppress(OSError):  # on Windows, of a file that is open
            file.unlink()
        lock.release()
        for path in made:
            with suppress(OSError):  # it is not empty
                path.rmdir()


class Checkpoints:
    """The checkpoints of a run, of which the last few are kept."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder / CHECKPOINTS, keep

    def save(self, step: int, write: Callable[[Path], None], also: int | None = None) -> Path:
        """Write a checkpoint and remove the oldest, but never that of the step ``also``."""
        target = self.folder / f"step-{step:08d}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if target.exists():  # of a run that went on from here
                self._remove(target)
            with files.new_folder(target) as stage:
                write(stage)
                written = sorted(file for file in stage.rglob("*") if file.is_file())
                manifest = {file.relative_to(stage).as_posix(): _digest(file) for file in written}
                (stage / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
        except OSError as error:
            with suppress(OSError):  # it is not empty
                self.folder.rmdir()
            raise SaveFailed(
                f"the checkpoint of step {step} could not be written to {self.folder}: "
                f"{error.strerror or error}; older ones are as they were"
            ) from error
        kept = {*self.steps()[-self.keep :], also}
        for old in self.steps():
            if old not in kept:
                self._remove(self.folder / f"step-{old:08d}")
        return target

    def steps(self) -> list[int]:
        """The steps that there are checkpoints of, in order."""
        names = (folder.name for folder in self.folder.glob("step-*") if folder.is_dir())
        numbers = (name.removeprefix("step-") for name in names)
        return sorted(int(number) for number in numbers if number.isdecimal())

    def newest(self) -> Path | None:
        """The newest checkpoint, whose files are what the manifest says."""
        for step in reversed(self.steps()):
            folder = self.folder / f"step-{step:08d}"
            require_whole(folder)
            return folder
        return None

    def tidy(self) -> None:
        """Remove what killed processes left half done."""
        for pattern in (".saving-*", ".removing-*"):
            for left in self.folder.glob(pattern):
                shutil.rmtree(left, ignore_errors=True)

    def _remove(self, folder: Path) -> None:
        """Rename a checkpoint, then remove its files: under its own name it is always whole."""
        doomed = folder.with_name(f".removing-{folder.name}")
        shutil.rmtree(doomed, ignore_errors=True)
        folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def require_whole(folder: Path) -> None:
    """Raise unless the files of a checkpoint are as they were written."""
    manifest: dict[str, Any] = read_json(folder / MANIFEST)
    for name, digest in manifest.items():
        file = folder / name
        if not file.is_file() or _digest(file) != digest:
            raise BrokenFile(
                f"{file} is not what was saved; remove {folder} to go on from the one before"
            )


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
