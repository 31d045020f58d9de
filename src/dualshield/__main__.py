"""The command line: what ``dualshield`` and ``python -m dualshield`` start.

It needs the extra ``cli``, which those who only import the library can do without.
"""

from __future__ import annotations

import sys

USAGE_ERROR = 2


def main() -> None:
    """Run the command line, or say in one line what it needs."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        print(
            f"dualshield: the command line needs the package {error.name}, which is not installed; "
            "run: pip install 'dualshield[cli]'",
            file=sys.stderr,
        )
        sys.exit(USAGE_ERROR)
    from dualshield.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
