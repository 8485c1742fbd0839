"""The command line as people and scripts run it: a process with its output and exit code."""

import subprocess
import sys


def vesalius(*arguments, **options):
    command = [sys.executable, "-m", "vesalius", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def shown(*arguments):
    done = vesalius(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout
