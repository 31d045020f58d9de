"""Numbers that are none, or none that an option can have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.hostile.kind import FEW, Call, Expected, Kind, photo, photos, put

GROUP = "numbers"
VALUES = ("-1", "0", "nan", "inf", "1e999", "abc", "", str(2**70))
# What errors call these.
ALSO_CALLED = {"lowpass": ("low-pass",), "fpr": ("false-match rate",), "grid": ("low-pass",), "n": ("n ",)}
# What follows an option and its value. Where the value is accepted, the rest ends soon: a pair that cannot be attacked,
# an image that is too small to be hardened, a part that has nothing to do.
COMMANDS: dict[str, tuple[str, ...]] = {
    "match": ("match", "a.png", "b.png", *FEW),
    "harden": ("harden", "tiny.png", "-o", "out.png", "--n", "20"),
    "attack": ("attack", "a.png", "b.png", "--n", "20"),
    "calibrate": (
        *("calibrate", "--data", "photos", "-o", "profile.json", "--grid", "32:0.5", "--images", "2"),
        *("--variant-images", "1", "--radius-images", "1", "--draws", "20"),
    ),
    "redteam": ("redteam", "a.png", "--method", "collision", "-o", "run", "--n", "20"),
    "evaluate": (
        *("evaluate", "--data", "photos", "-o", "run", "--parts", "collisions", "--variants", "original"),
        *("--limit", "1", "-j", "1"),
    ),
    "verify": ("verify", "a.png"),
    "weights fit": ("weights", "fit", "simdino", "--images", "photos"),
    "hash": ("hash", "a.png"),
}
# By command, every option that takes a number, and those of VALUES that are right, or right here.
OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "match": {
        "--n": (),
        "--n0": (),
        "--sigma": (),
        "--lowpass": (),
        "--alpha": (),
        "--target-radius": ("0",),
        "--seed": ("-1", "0", VALUES[-1]),
        "--batch-size": (VALUES[-1],),
        "--threads": (),
    },
    "harden": {
        "--n": (),
        "--sigma": (),
        "--lowpass": (),
        "--strength": (),
        "--quality": (),
        "--steps": (),
        "--seed": ("-1", "0", VALUES[-1]),
        "--batch-size": (VALUES[-1],),
    },
    "attack": {
        "--budget": (),
        "--strength": ("-1", "0", "nan", "inf", "1e999", VALUES[-1]),  # of hardening, which is not asked for
        "--seed": ("-1", "0", VALUES[-1]),
        "--n": (),
        "--sigma": (),
        "--lowpass": (),
    },
    "calibrate": {
        "--images": (VALUES[-1],),
        "--variant-images": (VALUES[-1],),
        "--radius-images": (VALUES[-1],),
        "--draws": (),
        "--threshold": ("0",),
        "--fpr": (),
        "--alpha": (),
        "--seed": ("-1", "0", VALUES[-1]),
        "--batch-size": (VALUES[-1],),
        "--grid": (),
    },
    "redteam": {
        "--budget": (),
        "--limit": (VALUES[-1],),
        "--jobs": (VALUES[-1],),
        "--strength": ("-1", "0", "nan", "inf", "1e999", VALUES[-1]),  # looked at when an image is hardened
        "--seed": ("-1", "0", VALUES[-1]),
        "--n": (),
        "--sigma": (),
        "--lowpass": (),
    },
    "evaluate": {
        "--limit": (VALUES[-1],),
        "--skip": ("0",),
        "--attack-limit": ("0", VALUES[-1]),
        "--seed": ("-1", "0", VALUES[-1]),
        "--jobs": (VALUES[-1],),
    },
    "verify": {"--tolerance": ()},
    "weights fit": {"--bits": (), "--seed": ("0",)},
    "hash": {"--threads": ()},
}


def kinds() -> Iterator[Kind]:
    """All of this group."""
    for command, options in OPTIONS.items():
        for option, right in options.items():
            for value in VALUES:
                expected: Expected = "either" if value in right else "failure"
                yield _kind(command, option, value, expected)
    for value in ("32", "32:", ":0.5", "32:a", "32:nan", "32:-1", "1:0.5", "32:0.5,,0.6", "32:0.5,0.5", "none:1e999"):
        yield _kind("calibrate", "--grid", value, "failure")


def _kind(command: str, option: str, value: str, expected: Expected) -> Kind:
    def arrange(sandbox: Path) -> Call:
        put(sandbox, "a.png", photo(1))
        put(sandbox, "b.png", photo(2))
        put(sandbox, "tiny.png", photo(1, 20))
        photos(sandbox)
        word = option.strip("-")
        names = (option, word, word.replace("-", " "), *ALSO_CALLED.get(word, ()))
        if expected == "either":
            names = ()  # what is wrong, if anything, is not this number
        if command in ("verify", "weights fit"):
            names += ("c-pdq", "simdino")  # its weights are looked for first
        # PNG has no quality: what is wrong with the number is said before that, of an image that can be hardened.
        base = ("harden", "a.png", *COMMANDS["harden"][2:]) if option == "--quality" else COMMANDS[command]
        return Call((*base, option, value), names, ("out.png", "profile.json", "profile.json.journal", "run"))

    return Kind(GROUP, f"{command} {option} {value or 'empty'}", expected, arrange)
