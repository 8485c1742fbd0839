"""The layers of the package, top down: each imports only what lies below it."""

LAYERS = [
    {"__main__"},
    {"cli"},
    {"explorer"},
    {"analyses"},
    {"classification", "verification", "evaluation", "conversion", "inspection"},
    {"peers"},
    {"training"},
    {"dissection", "filling", "embedding"},
    {"traces", "examples"},
    {"generation"},
    {"inputs", "capabilities", "steps", "edits", "graph", "pictures", "counting"},
    {"model"},
    {"data"},
    {"tokenizers"},
    {"checkpoints"},
    {"models", "naming"},
    {"families"},
    {"equations", "recipes", "specimens"},
    {"extras", "machine", "views", "arguments"},
    {"errors"},
]
