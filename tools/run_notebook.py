"""Runs the code cells of a notebook in one namespace, as "Run all" does, and needs no Jupyter for it.

python -m tools.run_notebook examples/tour.ipynb
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt


def code_cells(file: Path) -> list[str]:
    """The source of every code cell."""
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run(file: Path) -> dict[str, Any]:
    """The names that the cells leave behind; an error names its cell. Pictures are drawn and not shown."""
    mpl.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
        for index, source in enumerate(code_cells(file), start=1):
            exec(compile(source, f"{file.name}, code cell {index}", "exec"), names)
    plt.close("all")
    return names


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run(Path(name))
        print(f"{name}: all cells ran")
