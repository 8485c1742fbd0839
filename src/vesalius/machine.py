"""What the machine is, and what it does quickly."""

import platform
from pathlib import Path


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()


def quick_bfloat16() -> bool:
    """Whether products in bfloat16 are done by hardware here."""
    import torch

    if torch.cuda.is_available():
        return True
    onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return bool(onednn and torch.ops.mkldnn._is_mkldnn_bf16_supported())
