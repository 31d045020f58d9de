"""``python -m tools.hostile``: feed all kinds to the command line, and say which were not answered cleanly."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tools.hostile.check import examine
from tools.hostile.groups import all_kinds


def main() -> int:
    """Print a summary; the exit code is 1 if an answer was unclean."""
    parser = argparse.ArgumentParser(prog="python -m tools.hostile", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print all kinds, try none")
    parser.add_argument("--only", metavar="GROUP", help="this group alone")
    parser.add_argument("--json", action="store_true", help="JSON on stdout")
    options = parser.parse_args()
    kinds = [kind for kind in all_kinds() if options.only in (None, kind.group)]
    if not kinds:
        parser.error(f"no group {options.only!r}; there are {', '.join(dict.fromkeys(k.group for k in all_kinds()))}")
    if options.list:
        for kind in kinds:
            print(f"{kind.label}  [{kind.expected}]")
        return 0
    found: dict[str, dict[str, list[str]]] = {}
    seconds: dict[str, float] = {}
    for kind in kinds:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            found.setdefault(kind.group, {})[kind.name] = examine(kind, Path(folder))
        seconds[kind.label] = time.monotonic() - started
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        _show(found, seconds)
    return int(any(problems for group in found.values() for problems in group.values()))


def _show(found: dict[str, dict[str, list[str]]], seconds: dict[str, float]) -> None:
    print(f"{'group':<14} {'kinds':>6} {'clean':>6} {'unclean':>8} {'seconds':>8}")
    for group, kinds in found.items():
        unclean = sum(bool(problems) for problems in kinds.values())
        took = sum(seconds[f"{group}: {name}"] for name in kinds)
        print(f"{group:<14} {len(kinds):>6} {len(kinds) - unclean:>6} {unclean:>8} {took:>8.1f}")
    print(f"{'all':<14} {len(seconds):>6}")
    for group, kinds in found.items():
        for name, problems in kinds.items():
            for problem in problems:
                print(f"UNCLEAN {group}: {name}: {problem}")


if __name__ == "__main__":
    sys.exit(main())
