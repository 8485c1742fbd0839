"""The command line as people and scripts run it: a process with its output and exit code.

Loading Python and PyTorch takes longer than most commands do. So a process that has loaded both,
and done nothing else, waits and forks for each command. A command with an environment or an input
of its own, and one where that of the tests has changed, starts from nothing.
"""

import atexit
import json
import os
import runpy
import select
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

SECONDS = 600  # after which a command hangs; a busy machine is slow


def vesalius(*arguments, **options):
    if options or _environment() != _server().environment:
        command = [sys.executable, "-m", "vesalius", *arguments]
        settings = {"capture_output": True, "text": True, "timeout": SECONDS}
        return subprocess.run(command, **settings, **options)
    return _server().run(arguments)


def shown(*arguments):
    done = vesalius(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def is_complaint(text):
    """Whether this is all that is said of bad input: one line, after the usage where that helps."""
    *before, last = text.splitlines()
    return last.startswith("vesalius: ") and (not before or before[0].startswith("Usage: vesalius"))


def _environment():
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@cache
def _server():
    return Server()


class Server:
    """The process that waits, on the tests' side."""

    def __init__(self):
        self.environment = _environment()
        command = [sys.executable, __file__]
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **streams)
        atexit.register(self.process.communicate)  # its end is that of what it reads

    def run(self, arguments):
        with TemporaryDirectory() as folder:
            request = {"arguments": [*map(str, arguments)], "at": os.getcwd(), "to": folder}
            print(json.dumps(request), file=self.process.stdin, flush=True)
            if not select.select([self.process.stdout], [], [], SECONDS)[0]:
                self.process.kill()
                raise subprocess.TimeoutExpired(arguments, SECONDS)
            code = int(self.process.stdout.readline())
            out, err = ((Path(folder) / name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess(arguments, code, out, err)


def serve():
    """The process that waits, on its own side."""
    import torch  # noqa: F401

    import vesalius.cli
    import vesalius.dissection
    import vesalius.generation  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if not child:
            os._exit(_command(**json.loads(line)))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


def _command(arguments, at, to):
    """What ``python -m vesalius`` does; the exit code."""
    os.chdir(at)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{to}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv[1:] = arguments
    sys.path[0] = at
    try:
        runpy.run_module("vesalius", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    serve()
