"""Time `dualshield match` of two files from start to end, against a Python that only imports numpy and Pillow.

python -m benchmarks.startup
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

from dualshield.images.samples import sample_photos

RUNS = 7


def startup() -> dict[str, float]:
    """Return seconds of the baseline and of a match with PDQ, exact and by votes; the best of several runs."""
    first, second = (str(file) for file in sample_photos()[:2])
    match = ["-m", "dualshield", "match", first, second, "--hash", "pdq"]
    found = {
        "import numpy, PIL": _best(["-c", "import numpy, PIL.Image"]),
        "match --hash pdq": _best(match),
        "match --hash pdq --method votes": _best([*match, "--method", "votes"], 3),
    }
    base = found["import numpy, PIL"]
    for what, seconds in found.items():
        print(f"{what:<34} {seconds:6.2f} s  {seconds / base:5.1f} x import numpy, PIL", flush=True)
    return found


def _best(arguments: Sequence[str], runs: int = RUNS) -> float:
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return min(times)


if __name__ == "__main__":
    startup()
