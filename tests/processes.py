"""The command line as people and scripts run it: a process with its output and exit code.

Loading Python, PyTorch and Numba takes longer than most commands do. So a process that has loaded
them, and done nothing else, waits and forks for each command. A command with an environment that
says how Python starts, or with another option of a process, starts from nothing.
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
AT_START = ("PYTHON", "OMP_", "LANG", "LC_", "LD_")
"""Variables that are read when Python and its libraries start begin with one of these."""
NOTHING_COMPILED = {"PYTHONDONTWRITEBYTECODE": "1"}
"""On a full disk Python would keep half a compiled module, and fail to read it ever after."""


def vesalius(*arguments, env=None, input="", **options):
    env = _environment() if env is None else env
    changes = _server().changes(env)
    if options or any(name.startswith(AT_START) for name in changes):
        command = [sys.executable, "-m", "vesalius", *arguments]
        settings = {"capture_output": True, "text": True, "timeout": SECONDS, "input": input}
        return subprocess.run(command, env=env, **settings, **options)
    return _server().run(["vesalius", *arguments], [changes], input)[0]


def scripts(script, *arguments, environments=({},)):
    """Processes that run a script at the same time, one for each environment."""
    return _server().run([str(script), *arguments], environments)


def code(text, *arguments, **environment):
    """A process that runs this code."""
    with TemporaryDirectory() as folder:
        script = Path(folder) / "code.py"
        script.write_text(text, encoding="utf-8")
        return scripts(script, *arguments, environments=[environment])[0]


def shown(*arguments):
    done = vesalius(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def is_complaint(text):
    """Whether this is all that is said of bad input: one line, after the usage where that helps."""
    *before, last = text.splitlines()
    return last.startswith("vesalius: ") and (not before or before[0].startswith("Usage: vesalius"))


def on_a_full_disk(*arguments, room=4096, env=None, **options):
    """The same where no file can grow beyond some bytes, as on a disk that is full."""
    import resource

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    environment = {**(env or _environment()), **NOTHING_COMPILED}
    return vesalius(*arguments, preexec_fn=limit, env=environment, **options)


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

    def changes(self, environment):
        """What makes the environment of the process another: values by name, None for none."""
        names = self.environment.keys() | environment.keys()
        both = {name: (self.environment.get(name), environment.get(name)) for name in names}
        return {name: new for name, (old, new) in both.items() if old != new}

    def run(self, command, environments=({},), given=""):
        with TemporaryDirectory() as folder:
            (Path(folder) / "in").write_text(given, encoding="utf-8")
            what = {"command": [*map(str, command)], "at": os.getcwd(), "given": f"{folder}/in"}
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
    import numba  # noqa: F401
    import torch.distributed.fsdp  # noqa: F401

    import vesalius.cli
    import vesalius.generation
    import vesalius.traces.dissection
    import vesalius.training.loop  # noqa: F401

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


def _run(command, at, environment, to, given=os.devnull):
    """What ``python -m vesalius`` or ``python script.py`` does; the exit code."""
    os.chdir(at)
    for name, value in environment.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    os.dup2(os.open(given, os.O_RDONLY), 0)
    sys.stdin = os.fdopen(0, closefd=False)
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
