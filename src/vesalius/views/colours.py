"""The colours of figures and notebooks by name, light and dark: those of the explorer's page.

A class of symbol has one colour everywhere. ``frontend/src/page.css`` has the same ones for the
page, and a test compares them.
"""

LIGHT = {
    "paper": "#fdfcf9",
    "raised": "#ffffff",
    "ink": "#1d1b17",
    "soft": "#68645a",
    "line": "#e5e1d7",
    "edge": "#cbc6b9",
    "parameter": "#005a8f",
    "parameter-wash": "#e6f0f6",
    "bias": "#7a4a1e",
    "state": "#00664b",
    "state-wash": "#eaf3ee",
    "score": "#8a4b00",
    "score-wash": "#fbf3e4",
    "output": "#8e2f63",
    "output-wash": "#f6e8ef",
    "negative": "#5e3c99",
    "positive": "#d66014",
}
DARK = {
    "paper": "#14171a",
    "raised": "#1b1f23",
    "ink": "#eceae4",
    "soft": "#a0a5aa",
    "line": "#272c31",
    "edge": "#41484f",
    "parameter": "#6cb8f0",
    "parameter-wash": "#14222d",
    "bias": "#c79a6b",
    "state": "#4cc79e",
    "state-wash": "#15231f",
    "score": "#f0a94a",
    "score-wash": "#251e14",
    "output": "#e58bb8",
    "output-wash": "#2a1c24",
    "negative": "#a58ad6",
    "positive": "#f0883e",
}
THEMES = {"light": LIGHT, "dark": DARK}
DARK_NOTEBOOKS = (
    '[data-jp-theme-light="false"]',  # JupyterLab and what nbconvert writes
    ".vscode-dark",
    ".vscode-high-contrast",
    "html[theme=dark]",  # Colab
)
LIGHT_NOTEBOOKS = ('[data-jp-theme-light="true"]', ".vscode-light")
"""What notebooks say of themselves, whatever the system is."""


def rgb(name: str, theme: str) -> tuple[int, int, int]:
    text = THEMES[theme][name]
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def variables(scope: str) -> str:
    """CSS in which every colour is a variable of three numbers, dark where a notebook is."""
    light, dark = (
        "; ".join(f"--v-{name}: {', '.join(map(str, rgb(name, theme)))}" for name in THEMES[theme])
        for theme in THEMES
    )
    everywhere = ", ".join(f"{place} {scope}" for place in DARK_NOTEBOOKS)
    return f"{scope} {{ {light} }}\n{everywhere} {{ {dark} }}\n"
