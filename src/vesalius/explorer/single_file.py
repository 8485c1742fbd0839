"""The page as one file that a double click opens: scripts, styles, fonts and a run inside it.

It asks no network for anything, and a content policy in it says so to the browser.
"""

import base64
import hashlib
import re
from html import escape
from pathlib import Path
from typing import Any

from vesalius.arguments import Progress, silent
from vesalius.checkpoints import plain
from vesalius.explorer.app import PAGE
from vesalius.explorer.catalogue import entry_of
from vesalius.explorer.server import NoPage
from vesalius.explorer.snapshot import Given, keep
from vesalius.model import Model

LIMIT = 5_000_000
"""Bytes of a file: what can be sent by mail, and what a browser opens in a moment."""


def write(
    file: Path,
    name: str,
    given: Given,
    model: Model | None = None,
    limit: int = LIMIT,
    page: Path = PAGE,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Write the page with a run of a model; what is in the file, and what was left out."""
    folder = Path(file).absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder} to write {file.name} in; make it first"
        )
    text, left = page_of(name, given, model, limit, page, progress)
    with plain.replacing(file) as place:
        place.write_text(text, encoding="utf-8", newline="\n")
    return {"file": str(file), "bytes": len(text.encode()), "left": left}


def page_of(
    name: str,
    given: Given,
    model: Model | None = None,
    limit: int = LIMIT,
    page: Path = PAGE,
    progress: Progress = silent,
) -> tuple[str, list[str]]:
    """The page with a run of a model, and what was left out."""
    before, after = assembled(page)
    room = (limit - len(before.encode()) - len(after.encode())) // 4 * 3
    kept = keep(entry_of(name, model), given, room, progress)
    return f"{before}{base64.b64encode(kept.whole()).decode()}{after}", kept.left


def assembled(page: Path = PAGE) -> tuple[str, str]:
    """What stands before and after the run in the file."""
    if not (page / "index.html").exists():
        raise NoPage("the page of the explorer is not built; 'make page' builds it, with Node")
    index = (page / "index.html").read_text("utf-8")
    (script,), (style,) = (
        [(page / name).read_text("utf-8") for name in re.findall(pattern, index)]
        for pattern in (
            r'<script[^>]* src="/([^"]+)"',
            r'<link rel="stylesheet"[^>]* href="/([^"]+)"',
        )
    )
    style = re.sub(r"url\(/([^)]+)\)", lambda found: f"url({_address(page / found[1])})", style)
    script = script.replace("\r", "").replace("</script", r"<\/script")
    assert "<script" not in script.lower(), "which would end the page's own script too late"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "font-src data:; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    licences = (page / "licences.txt").read_text("utf-8").replace("--", "- -")
    before = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="{_address(page / "favicon.svg")}">
<title>Vesalius</title>
<!-- Vesalius, Apache-2.0. With it:

{licences}-->
<style>{style}</style>
</head>
<body>
<div id="page"></div>
<script type="text/plain" id="kept">"""
    return before, f'</script>\n<script type="module">{script}</script>\n</body>\n</html>\n'


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _address(file: Path) -> str:
    kind = "image/svg+xml" if file.suffix == ".svg" else "font/woff2"
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"
