"""What the machine is, and where it keeps things."""

import os
from pathlib import Path

import pytest

from vesalius import machine
from vesalius.errors import Unwritable


def test_there_is_a_core_and_no_more_than_processors():
    assert 1 <= machine.physical_cores() <= os.cpu_count()


def test_two_threads_of_a_core_count_once(monkeypatch, tmp_path):
    for processor, core in enumerate([0, 0, 1, 1]):
        folder = tmp_path / f"cpu{processor}" / "topology"
        folder.mkdir(parents=True)
        (folder / "core_id").write_text(f"{core}\n")
        (folder / "physical_package_id").write_text("0\n")
    monkeypatch.setattr(machine, "PROCESSORS", tmp_path)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert machine.physical_cores() == 2
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1})
    assert machine.physical_cores() == 1
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {9})
    assert machine.physical_cores() == os.cpu_count()


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("VESALIUS_CACHE", "/a/cache")
    assert machine.cache_folder() == Path("/a/cache")
    monkeypatch.delenv("VESALIUS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/a/home")
    assert machine.cache_folder() == Path("/a/home/vesalius")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    for platform, folder in [
        ("linux", ".cache"),
        ("darwin", "Library/Caches"),
        ("win32", "AppData/Local"),
    ]:
        monkeypatch.setattr(machine.sys, "platform", platform)
        assert machine.cache_folder() == tmp_path / folder / "vesalius"


def test_without_a_home_one_is_asked_to_name_a_cache(monkeypatch):
    monkeypatch.delenv("VESALIUS_CACHE", raising=False)
    monkeypatch.setattr(machine.os.path, "expanduser", lambda path: path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(Unwritable, match="set VESALIUS_CACHE"):
        machine.cache_folder()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="flags of x86 processors")
@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="needs Linux's list of flags")
def test_bfloat16_counts_as_quick_only_where_the_processor_has_instructions_for_it():
    flags = set(Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split())
    if machine.quick_bfloat16():
        assert flags & {"avx512_bf16", "amx_bf16"}
