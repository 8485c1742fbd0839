"""What the library prints as it fails is kept from the terminal, and nothing else is."""

import os
import subprocess
import sys

import pytest

FORKED = """
import os, threading
from vesalius.tokenizers.panics import silenced

inside, leave = threading.Event(), threading.Event()

def work():
    with silenced():
        inside.set()
        leave.wait()

# What is registered last is called first: the fork finds another thread in silence.
os.register_at_fork(before=leave.set)
thread = threading.Thread(target=work)
thread.start()
inside.wait()
child = os.fork()
if not child:
    with silenced():
        os.write(2, b"not to be seen")
    os.write(2, b"the child is heard")
    os._exit(0)
thread.join()
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_while_another_thread_is_silent_can_print_errors():
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, b"the child is heard")
