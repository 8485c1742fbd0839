"""Search at random for what goes wrong, for some minutes: `make fuzz MINUTES=60`.

Prints what was found so that it can be made an example of a test, and exits with 1 if anything was.
"""

import argparse
import secrets
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_SEEDS = 1 << 32


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(MOST_SEEDS))
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    return 1 if properties(arguments.seed, end) else 0


def properties(seed: int, end: float) -> int:
    """Property tests with new examples, again and again; how many rounds found something."""
    found = rounds = 0
    while not rounds or time.monotonic() < end:
        chosen = (seed + rounds) % MOST_SEEDS
        report(f"property tests with seed {chosen}")
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-m", "hypothesis"]
        options = ["--hypothesis-profile=fuzz", f"--hypothesis-seed={chosen}"]
        test = subprocess.run([*command, *options], cwd=ROOT, check=False)
        found += test.returncode != 0
        rounds += 1
    report(f"{rounds} rounds of the property tests, {found} with findings")
    return found


def report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
