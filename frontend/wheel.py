"""What hatchling runs before it builds: a wheel without the explorer's page is refused."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = Path("src/vesalius/explorer/page/index.html")


class Page(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and not (Path(self.root) / PAGE).is_file():
            raise FileNotFoundError(f"there is no {PAGE}; 'make page' builds it, with Node")
