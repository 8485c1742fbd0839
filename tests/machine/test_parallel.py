import subprocess
import sys

import pytest
from processes import SECONDS

from vesalius.machine import parallel_map


def test_results_come_in_order():
    assert list(parallel_map(lambda x: x * x, range(100), workers=3)) == [x * x for x in range(100)]
    assert list(parallel_map(str, [])) == []


def test_an_exception_comes_in_the_place_of_its_result():
    results = parallel_map(lambda x: 1 // x, [1, 2, 0, 3], workers=2)
    assert [next(results), next(results)] == [1, 0]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_what_nobody_reads_is_not_begun():
    begun = []
    results = parallel_map(begun.append, range(1_000_000), workers=1)
    next(results)
    results.close()
    assert len(begun) < 1_000_000
    assert list(parallel_map(len, ["a", "bc"])) == [1, 2]


INTERRUPTED = """
import sys
from vesalius.machine import parallel_map

def interrupted_at(number):
    count = 0
    def trace(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == number:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace
    sys.settrace(trace)
    try:
        assert list(parallel_map(abs, range(-4, 0), workers=2)) == [4, 3, 2, 1]
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)

number = 0
while interrupted_at(number := number + 1):
    assert list(parallel_map(abs, [-1, -2], workers=2)) == [1, 2]
assert number > 100, number
"""


def test_an_interrupt_at_any_instruction_leaves_nothing_waiting():
    subprocess.run([sys.executable, "-c", INTERRUPTED], check=True, timeout=SECONDS)
