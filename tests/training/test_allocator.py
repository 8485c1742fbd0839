"""Memory that training keeps from step to step."""

import json
import subprocess
import sys

import pytest

MEASURED = """
import json, resource, torch
from vesalius.training.allocator import keep_freed_memory

SIZE = 64 * 2**20  # bytes that are asked for over and over; more than is ever kept unasked

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        torch.ones(SIZE // 4)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    with open("/proc/self/statm") as opened:
        return int(opened.read().split()[1]) * resource.getpagesize()

found = {"usual": faults(), "before": resident()}
with keep_freed_memory():
    faults()  # until the pieces have found their places
    found |= {"kept": faults(), "meanwhile": resident()}
print(json.dumps({**found, "after": resident(), "size": SIZE}))
"""
"""Pages that the system gives for eight steps, and memory held; in a process of their own, since
what others left in theirs counts too."""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's memory is told what to keep")
def test_memory_is_kept_while_it_lasts_and_then_given_back():
    command = [sys.executable, "-c", MEASURED]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=600).stdout)
    assert found["kept"] < found["usual"] / 4
    assert found["meanwhile"] > found["before"] + found["size"] / 2
    assert found["after"] < found["before"] + found["size"] / 2
