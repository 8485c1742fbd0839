"""What the machine is, and what it does quickly."""

import os
import platform
from pathlib import Path


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()


def physical_cores() -> int:
    """The cores that this process may use; two threads of one core count once."""
    try:
        allowed = os.sched_getaffinity(0)
        topology = [Path(f"/sys/devices/system/cpu/cpu{i}/topology") for i in allowed]
        names = ("physical_package_id", "core_id")
        return len({tuple((t / name).read_text() for name in names) for t in topology})
    except (OSError, AttributeError):  # not on Linux
        return os.cpu_count() or 1


def quick_bfloat16() -> bool:
    """Whether products in bfloat16 are done by hardware here."""
    import torch

    if torch.cuda.is_available():
        return True
    onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return bool(onednn and torch.ops.mkldnn._is_mkldnn_bf16_supported())
