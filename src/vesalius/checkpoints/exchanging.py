"""Folders that get their files in one step, new folders and old ones.

The new files of an old folder are written beside it, and the two change places: ``renameat2`` with
RENAME_EXCHANGE on Linux, ``renamex_np`` with RENAME_SWAP on macOS. Where that cannot be, files are
replaced whole, but one after the other: on other systems, for a folder that this process stands
in, for a mounted one, and for one whose parent cannot be written to.
"""

import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path

from vesalius.checkpoints.files import SAVING, name_target, new_folder, sync
from vesalius.errors import AlreadyThere

AT_FDCWD, SWAP = -100, 2


def written(folder: Path, belongs: Callable[[str], bool]) -> AbstractContextManager[Path]:
    """A folder to write files in that becomes ``folder``, or that gives it all of them at once."""
    return replaced(folder, belongs) if folder.is_dir() else new_folder(folder)


def free_folder(target: Path) -> AbstractContextManager[Path]:
    """A folder to write in that becomes ``target``, where there is none or an empty one."""
    if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
        raise AlreadyThere(f"{target} is there already and not empty; give a new folder")
    return written(target, lambda name: False)


@contextmanager
def replaced(folder: Path, belongs: Callable[[str], bool]) -> Iterator[Path]:
    """A folder to write files in that take the place of those of ``folder``, in one step.

    Files that ``belongs`` names go with the old folder, all others stay. An exception leaves the
    old as it was. A killed process leaves the old or the new, and perhaps a temporary folder beside
    or inside it, whose name begins with ``SAVING``; it can be deleted.
    """
    target = folder.resolve()
    stage, beside = _stage(target)
    try:
        yield stage
        written = sorted(stage.iterdir())
        for file in written:
            _keep_mode(target / file.name, file)
            sync(file)
        if not (beside and _exchanged(target, stage, belongs)):
            _one_by_one(target, stage, belongs)
    except OSError as error:
        name_target(error, stage, target)
        raise
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _stage(target: Path) -> tuple[Path, bool]:
    """A new folder to write in, and whether it can change places with the old one."""
    name = f"{SAVING}{secrets.token_hex(8)}"
    if _swap() is not None and not os.path.ismount(target) and not _stands_in(target):
        with suppress(PermissionError):
            target.with_name(name).mkdir()
            return target.with_name(name), True
    (target / name).mkdir()
    return target / name, False


def _stands_in(target: Path) -> bool:
    """Whether this process is in the folder: whoever started it would be left in the old one."""
    with suppress(OSError):
        return Path.cwd().is_relative_to(target)
    return False


def _exchanged(target: Path, stage: Path, belongs: Callable[[str], bool]) -> bool:
    """Let the two folders change places; False where the file system cannot."""
    swap, written = _swap(), set(stage.iterdir())
    assert swap is not None
    _keep(target, stage, belongs, _link)
    _keep_mode(target, stage)
    for path in (*(p for p in stage.rglob("*") if p.is_dir() and not p.is_symlink()), stage):
        sync(path)
    if swap(os.fsencode(stage), os.fsencode(target)) != 0:
        for path in set(stage.iterdir()) - written:  # what was linked is still where it was
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return False
    sync(target.parent)
    _keep(stage, target, belongs, os.replace)  # what came meanwhile
    return True


def _one_by_one(target: Path, stage: Path, belongs: Callable[[str], bool]) -> None:
    new = {file.name for file in stage.iterdir()}
    for name in sorted(new):
        beside = target / f"{SAVING}{secrets.token_hex(8)}"
        try:
            shutil.move(stage / name, beside)  # the folder may be on another disk than its parent
            sync(beside)
            beside.replace(target / name)
        finally:
            beside.unlink(missing_ok=True)
    for file in target.iterdir():
        if belongs(file.name) and file.name not in new and not file.is_dir():
            file.unlink()
    sync(target)


def _keep(
    old: Path, new: Path, belongs: Callable[[str], bool], give: Callable[[str, str], object]
) -> None:
    """Give the new folder what the old one has and it lacks, but not what belongs to the old."""
    for entry in os.scandir(old):
        if entry.name.startswith(SAVING) or belongs(entry.name):
            continue
        place = new / entry.name
        if entry.is_dir(follow_symlinks=False):
            if not os.path.lexists(place):
                place.mkdir()
                shutil.copystat(entry.path, place)
            _keep(Path(entry.path), place, lambda name: False, give)
        elif not os.path.lexists(place):
            give(entry.path, str(place))


def _link(source: str, target: str) -> None:
    """A second name for the same file, or a copy where there can be none."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _keep_mode(old: Path, new: Path) -> None:
    """The permissions, and where possible the owner, of what is replaced."""
    if not old.exists():
        return
    shutil.copymode(old, new)
    with suppress(OSError):
        os.chown(new, old.stat().st_uid, old.stat().st_gid)


@cache
def _swap() -> Callable[[bytes, bytes], int] | None:
    """The system's exchange of two names, or None where it has none."""
    try:
        system = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            return lambda one, other: int(system.renamex_np(one, other, SWAP))
        exchange = system.renameat2
    except (AttributeError, OSError, TypeError):
        return None
    return lambda one, other: int(exchange(AT_FDCWD, one, AT_FDCWD, other, SWAP))
