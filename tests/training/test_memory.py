"""Memory that training keeps from step to step."""

import resource
import sys

import pytest
import torch

from vesalius.training.memory import kept_memory

PAGE = 4096
SIZE = 64 * 2**20
"""Bytes that are asked for over and over; more than the C library ever keeps by itself."""


def faults():
    """How many pages the system had to give while eight steps came and went."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        torch.ones(SIZE // 4)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident():
    with open("/proc/self/statm") as opened:
        return int(opened.read().split()[1]) * PAGE


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's memory is told what to keep")
def test_memory_is_kept_while_it_lasts_and_then_given_back():
    usual = faults()
    before = resident()
    with kept_memory():
        faults()  # until the pieces have found their places
        kept = faults()
        assert resident() > before + SIZE // 2
    assert kept < usual / 4
    assert resident() < before + SIZE // 2
