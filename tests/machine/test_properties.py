"""Properties that are computed once: kept, shared by threads, and free in a fork."""

import os
import signal
import sys
from threading import Event, Thread

import pytest

from vesalius.machine.properties import cached_property


class Slow:
    """Something that is computed when it is allowed to be."""

    def __init__(self):
        self.begun, self.allowed, self.computed = Event(), Event(), 0

    @cached_property
    def value(self):
        """A new object."""
        self.begun.set()
        self.allowed.wait()
        self.computed += 1
        return object()


def test_a_value_is_computed_once_until_it_is_dropped():
    slow = Slow()
    slow.allowed.set()
    assert slow.value is slow.value
    assert slow.computed == 1
    first = slow.__dict__.pop("value")
    assert slow.value is not first
    assert Slow.value.__doc__ == "A new object."


def test_threads_that_compute_at_once_get_the_same_object():
    slow, got = Slow(), []
    threads = [Thread(target=lambda: got.append(slow.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    slow.begun.wait()
    slow.allowed.set()
    for thread in threads:
        thread.join()
    assert len({id(value) for value in got}) == 1
    assert slow.value is got[0]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_waits_for_nothing_that_another_thread_computes():
    slow, other = Slow(), Slow()
    other.allowed.set()
    thread = Thread(target=lambda: slow.value)
    thread.start()
    slow.begun.wait()
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that hangs
        os._exit(0 if other.value is other.value else 1)
    slow.allowed.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
