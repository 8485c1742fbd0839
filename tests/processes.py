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

SECONDS = 1800  # after which a command hangs; a busy machine is slow
STREAMS = ("out", "err")


def vesalius(*arguments, **options):
    if options or _environment() != _server().environment:
        command = [sys.executable, "-m", "vesalius", *arguments]
        settings = {"capture_output": True, "text": True, "timeout": SECONDS, "env": os.environ}
        return subprocess.run(command, **settings | options)
    return _server().run(["vesalius", *arguments])[0]


def scripts(script, *arguments, environments=({},)):
    """Processes that run a script at the same time, one for each environment."""
    return _server().run([str(script), *arguments], environments)


def shown(*arguments):
    done = vesalius(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def is_complaint(text):
    """Whether this is all that is said of bad input: one line, after the usage where that helps."""
    *before, last = text.splitlines()
    return last.startswith("vesalius: ") and (not before or before[0].startswith("Usage: vesalius"))


def on_a_full_disk(*arguments, room=4096, **options):
    """The same where no file can grow beyond some bytes, as on a disk that is full."""
    import resource

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    return vesalius(*arguments, preexec_fn=limit, **options)


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
        # Said, because readline writes COLUMNS where Python's own environment does not see it.
        self.process = subprocess.Popen(command, text=True, env=self.environment, **streams)
        atexit.register(self.process.communicate)  # its end is that of what it reads

    def run(self, command, environments=({},)):
        with TemporaryDirectory() as folder:
            what = {"command": [*map(str, command)], "at": os.getcwd()}
            requests = [
                {**what, "environment": environment, "to": f"{folder}/{number}"}
                for number, environment in enumerate(environments)
            ]
            print(json.dumps(requests), file=self.process.stdin, flush=True)
            if not select.select([self.process.stdout], [], [], SECONDS)[0]:
                self.process.kill()
                raise subprocess.TimeoutExpired(command, SECONDS)
            return [
                subprocess.CompletedProcess(
                    command,
                    code,
                    *(Path(f"{request['to']}.{name}").read_text() for name in STREAMS),
                )
                for code, request in zip(
                    json.loads(self.process.stdout.readline()), requests, strict=True
                )
            ]


def serve():
    """The process that waits, on its own side."""
    import torch.distributed.fsdp  # noqa: F401

    import vesalius.cli
    import vesalius.dissection
    import vesalius.generation
    import vesalius.training  # noqa: F401

    for line in sys.stdin:
        children = [_forked(request) for request in json.loads(line)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        sys.stdout.write(f"{json.dumps(codes)}\n")
        sys.stdout.flush()


def _forked(request):
    child = os.fork()
    if not child:
        os._exit(_run(**request))
    return child


def _run(command, at, environment, to):
    """What ``python -m vesalius`` or ``python script.py`` does; the exit code."""
    os.chdir(at)
    os.environ |= environment
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in enumerate(STREAMS, 1):
        os.dup2(os.open(f"{to}.{name}", os.O_WRONLY | os.O_CREAT), number)
    sys.argv[:] = command
    try:
        if command[0] == "vesalius":
            sys.path[0] = at
            runpy.run_module("vesalius", run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(command[0]).parent)
            runpy.run_path(command[0], run_name="__main__")
        return 0
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    serve()
