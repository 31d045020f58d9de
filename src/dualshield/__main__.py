"""``python -m dualshield``: the command line, where its script is not on the path."""

import sys

from dualshield.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
