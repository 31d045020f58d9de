"""``python -m dualshield``: the command line, where its script is not on the path."""

from dualshield.cli.main import main

if __name__ == "__main__":
    main()
