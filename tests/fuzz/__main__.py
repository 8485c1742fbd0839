"""Search at random for what goes wrong, for some minutes: `make fuzz MINUTES=60`.

Half of the processors look for examples that fail the property tests, the others damage files and
commands, one target after the other. Prints what was found, keeps the files that show it, and
exits with 1 if anything was found; it can then be made an example of a test.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARGETS = (  # noqa: SIM905
    "safetensors configs tokenizers pickles keras recipes series images traces edits engines "
    "sampling attribution saving tables tokens foreign commands routes"
).split()
PROPERTIES = "properties"
KEPT = ROOT / "fuzz-findings"
KERNELS = ROOT / ".pytest_cache/d/kernels"
"""Compiled once for all targets, and for the tests; as in tests/surroundings.py."""
MOST_SEEDS = 1 << 32
STUCK = 900  # seconds without a new case: such a process waits for something, and not for its turn


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(MOST_SEEDS))
    parser.add_argument("--only", nargs="+", choices=[*TARGETS, PROPERTIES])
    parser.add_argument("--case", type=int, help="One case again, of --only and --seed.")
    arguments = parser.parse_args()
    chosen = arguments.only or [*TARGETS, PROPERTIES]
    if arguments.case is not None:
        return bool(searched(chosen[0], arguments.seed, 3600, arguments.case, cases=1).findings)
    report(f"seed {arguments.seed}, {arguments.minutes:g} minutes: {', '.join(chosen)}")
    seconds = 60 * arguments.minutes
    with ThreadPoolExecutor(2) as pool:
        rounds = pool.submit(properties, arguments.seed, seconds) if PROPERTIES in chosen else None
        targets = [target for target in chosen if target != PROPERTIES]
        found = sum(
            searched(target, arguments.seed, seconds / len(targets)).shown() for target in targets
        )
        found += rounds.result() if rounds else 0
    report(f"{found} findings" if found else "nothing was found")
    return 1 if found else 0


@dataclass
class Outcome:
    """What was seen of one target."""

    target: str
    findings: list[str] = field(default_factory=list)
    cases: int = 0
    answered: int = 0
    megabytes: float = 0
    seconds: float = 0

    def shown(self) -> int:
        report(
            f"{self.target}: {self.cases:,} cases in {self.seconds:.0f} s, "
            f"{self.answered:,} of them answered, {self.megabytes:.0f} MB at most, "
            f"{len(self.findings)} findings"
        )
        return len(self.findings)


def searched(
    target: str, seed: int, seconds: float, first: int = 0, cases: int | None = None
) -> Outcome:
    """Cases of a target for some time, in processes that may die of one."""
    outcome, end, number = Outcome(target), time.monotonic() + seconds, first
    with tempfile.TemporaryDirectory(prefix=f"vesalius-fuzz-{target}-") as name:
        folder = Path(name)
        share_kernels(folder / "cache")
        once = False
        while not once or (cases is None and time.monotonic() < end):
            once = True
            how = ended(target, folder, seed, number, end - time.monotonic(), cases)
            told = [json.loads(line) for line in read(folder / "out").splitlines()]
            (folder / "out").unlink(missing_ok=True)
            for finding in told:
                if "problem" in finding:
                    announce(outcome, folder, seed, finding["case"], finding["problem"])
            if told and "next" in told[-1]:
                last = told[-1]
                outcome.cases += last["cases"]
                outcome.answered += last["answered"]
                outcome.seconds += last["seconds"]
                outcome.megabytes = max(outcome.megabytes, last["megabytes"])
                number = last["next"]
                continue
            died = int(read(folder / "now") or -1)
            announce(outcome, folder, seed, died, f"the process ended: {how}")
            if died < number:  # before its first case
                break
            outcome.cases += died - number + 1
            number = died + 1
    return outcome


def share_kernels(cache: Path) -> None:
    KERNELS.mkdir(parents=True, exist_ok=True)
    cache.mkdir()
    (cache / "kernels").symlink_to(KERNELS, target_is_directory=True)


def ended(
    target: str, folder: Path, seed: int, first: int, seconds: float, cases: int | None
) -> str:
    """Run a process over cases to its end; how that was."""
    paths = os.pathsep.join([str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "MALLOC_ARENA_MAX": "2"}
    own |= {"VESALIUS_CACHE": str(folder / "cache"), "MPLCONFIGDIR": str(folder / "matplotlib")}
    own |= {"TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "fuzz.worker", target, str(folder), f"--seed={seed}"]
    limits = [f"--first={first}", f"--seconds={max(seconds, 1)}"]
    limits += [] if cases is None else [f"--cases={cases}"]
    with (folder / "printed").open("w+") as printed:
        process = subprocess.Popen(
            [*command, *limits],
            # Without corpora, so that a recipe of the package is refused and not trained by.
            env={k: v for k, v in os.environ.items() if k != "VESALIUS_DATA"} | own,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
        )
        try:
            while True:
                try:
                    process.wait(STUCK)
                    break
                except subprocess.TimeoutExpired:
                    now = folder / "now"
                    if now.exists() and time.time() - now.stat().st_mtime < STUCK:
                        continue
                    process.kill()
                    return f"no new case for {STUCK} seconds"
        finally:
            process.kill()
            process.wait()
        printed.seek(0)
        text = printed.read()[-3000:]
    code = process.returncode
    if code == -signal.SIGXCPU:
        return "too much of the processor's time for one case"
    return f"{signal.Signals(-code).name if code < 0 else f'exit code {code}'}\n{text}"


def announce(outcome: Outcome, folder: Path, seed: int, case: int, problem: str) -> None:
    """Show a finding and keep its files."""
    kept = KEPT / f"{outcome.target}-{seed}-{case}"
    found = folder / "found" / f"{outcome.target}-{seed}-{case}"
    shutil.rmtree(kept, ignore_errors=True)
    with_files = found if found.exists() else folder / "case"
    if with_files.exists():
        shutil.copytree(with_files, kept)
    outcome.findings.append(problem)
    again = f"python tests/fuzz --only {outcome.target} --seed {seed} --case {case}"
    report(f"\nFOUND in {outcome.target}, case {case}; again with: {again}\n{kept}\n{problem}")


def properties(seed: int, seconds: float) -> int:
    """Property tests with new examples, again and again; how many rounds found something."""
    found, rounds, end = 0, 0, time.monotonic() + seconds
    while not rounds or time.monotonic() < end:
        chosen = (seed + rounds) % MOST_SEEDS
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-m", "hypothesis"]
        options = [
            "--hypothesis-profile=fuzz",
            f"--hypothesis-seed={chosen}",
            "-p",
            "no:cacheprovider",
        ]
        with tempfile.TemporaryFile("w+") as printed:
            process = subprocess.Popen(
                [*command, *options], cwd=ROOT, stdout=printed, stderr=subprocess.STDOUT
            )
            try:
                failed = process.wait(max(1, end - time.monotonic())) != 0
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                process.wait()
                failed = False  # by itself; what it found until now stands in its report
            printed.seek(0)
            text = printed.read()
        rounds += 1
        if failed or "Falsifying example" in text or "\nFAILED " in text:
            found += 1
            report(f"\nFOUND by property tests with seed {chosen}\n{text[-20_000:]}")
    report(f"properties: {rounds} rounds, the last until the time was over, {found} with findings")
    return found


def read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
