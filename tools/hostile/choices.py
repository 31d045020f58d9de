"""Words where a command knows only some, and words in the wrong place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.hostile.kind import FEW, Call, Kind, photo, photos, put

GROUP = "choices"
MATCH = ("match", "a.png", "b.png", *FEW)
HARDEN = ("harden", "a.png", "-o", "out.png")
ATTACK = ("attack", "a.png", "b.png")
REDTEAM = ("redteam", "photos", "-o", "run")
EVALUATE = ("evaluate", "--data", "photos", "-o", "run")
CALIBRATE = ("calibrate", "--data", "photos", "-o", "profile.json")
# A word that nothing has, and what a terminal acts on.
UNKNOWN = {"an unknown word": "nonsense", "an empty word": "", "escape sequences": "\x1b[31mred\x1b[0m\n"}


def kinds() -> Iterator[Kind]:
    """All of this group."""
    every: dict[tuple[str, ...], tuple[str, ...]] = {
        MATCH: (
            "--hash",
            "--rule",
            "--noise",
            "--reference-mode",
            "--engine",
            "--device",
            "--on-abstain",
            "--sigma",
            "--views",
        ),
        HARDEN: (
            "--hash",
            "--preset",
            "--format",
            "--engine",
            "--device",
            "--rule",
            "--noise",
            "--negatives",
            "--views",
        ),
        ATTACK: ("--hash", "--method", "--against", "--device", "--rule", "--noise", "--views"),
        REDTEAM: ("--hash", "--method", "--against", "--device", "--rule", "--noise", "--views"),
        EVALUATE: ("--hash", "--variants", "--parts", "--protocol", "--device"),
        CALIBRATE: ("--hash", "--engine", "--device"),
        ("hash", "a.png"): ("--hash",),
        ("verify", "a.png"): ("--hash", "--norm", "--space", "--rule"),
    }
    for call, options in every.items():
        for option in options:
            for what, word in UNKNOWN.items():
                plain = option.strip("-").replace("-", " ")
                names = (option, plain, plain.rstrip("s"), "c-pdq", "red" if "red" in word else word or "''")
                yield _kind(f"{call[0]} {option}: {what}", (*call, option, word), names)
    yield from (_kind(name, call, names) for name, (call, names) in _others().items())


def _others() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    both = ("--threshold", "--fpr")
    return {
        "no command that exists": (("nonsense",), ("nonsense",)),
        "escape sequences as a command": (("\x1b[2J",), ("No such command",)),
        "an option that does not exist": ((*MATCH, "--nonsense"), ("--nonsense",)),
        "an option without its value": ((*MATCH, "--hash"), ("--hash",)),
        "one argument too few": (("match", "a.png"), ("QUERY",)),
        "one argument too many": ((*MATCH, "c.png"), ("c.png",)),
        "no images to hash": (("hash",), ("IMG",)),
        "quiet and verbose": ((*MATCH, "-q", "-v"), ("--quiet",)),
        "an unknown hash beside a known one": ((*MATCH, "--hash", "pdq+nonsense"), ("nonsense",)),
        "nothing beside a hash": ((*MATCH, "--hash", "pdq+"), ("hash ''",)),
        "the same hash twice": ((*MATCH, "--hash", "pdq+pdq"), ("pdq",)),
        "a path as a hash": ((*MATCH, "--hash", "../../etc/passwd"), ("passwd",)),
        "a hash of 10,000 letters": ((*MATCH, "--hash", "x" * 10_000), ("hash",)),
        "a hash without weights": ((*MATCH, "--hash", "sscd"), ("sscd",)),
        "a hash of another case": ((*MATCH, "--hash", "PDQ"), ("PDQ",)),
        "noise for experiments": ((*MATCH, "--noise", "clipped-limit"), ("clipped-limit",)),
        "a rule that this hash has not": ((*MATCH, "--rule", "native"), ("hash pdq",)),
        "a device that is not there": ((*MATCH, "--device", "cuda:99"), ("cuda:99", "device")),
        "sigma auto with the paper": ((*MATCH, "--paper", "--sigma", "auto"), ("sigma",)),
        "sigma auto of a bare code": (("match", "code:" + "0" * 64, "b.png", "--sigma", "auto"), ("sigma",)),
        "a low-pass that was not calibrated": ((*MATCH, "--lowpass", "7"), ("low-pass",)),
        "both thresholds": ((*CALIBRATE, "--threshold", "0.1", "--fpr", "0.1"), both),
        "a false-match rate above 1": ((*CALIBRATE, "--fpr", "1.5"), ("false-match", "fpr")),
        "an output and in place": ((*HARDEN, "--in-place"), ("--in-place",)),
        "neither output nor in place": (("harden", "a.png"), ("--in-place",)),
        "a preview of two images": (("harden", "a.png", "b.png", "-o", "out", "--preview", "p.png"), ("--preview",)),
        "two images of the same name": (("harden", "a.png", "photos/../a.png", "-o", "out/"), ("'a'",)),
        "a quality for PNG": ((*HARDEN, "--quality", "50"), ("quality",)),
        "a name of another format": (("harden", "a.png", "-o", "out.jpg"), ("out.jpg",)),
        "a collision without a query": (("attack", "a.png", "--method", "collision"), ("QUERY",)),
        "an attack on what does not match": (ATTACK, ("b.png",)),
        "a collision of what matches": (("attack", "a.png", "a.png", "--method", "collision"), ("a.png",)),
        "transformations with a budget": ((*REDTEAM, "--transforms", "--budget", "1"), ("--transforms",)),
        "variants of nothing but commas": ((*EVALUATE, "--variants", ",,,"), ("variant",)),
        "a part twice": ((*EVALUATE, "--parts", "nonsense,nonsense"), ("part",)),
        "two folders of one name": ((*EVALUATE, "--data", "photos"), ("photos",)),
        "a reference on standard input, and the query too": (("match", "-", "-"), ("standard input",)),
        "standard input twice": (("hash", "-", "-"), ("standard input",)),
        "an unknown shell": (("completion", "nonsense"), ("nonsense",)),
        "unknown weights": (("weights", "import", "nonsense", "a.png"), ("nonsense",)),
        "unknown weights to fetch": (("weights", "fetch", "\x1b[31m"), ("weights",)),
        "weights that nobody publishes": (("weights", "fetch", "simdino-projection"), ("simdino-projection",)),
        "reports of two runs without a place": (("report", "run", "run2"), ("--out",)),
        "a run compared with nothing": (("compare", "run"), ("RUN2",)),
        "a run that is not there to resume": ((*EVALUATE, "--resume", "--hash", "nonsense"), ("nonsense",)),
    }


def _kind(name: str, arguments: tuple[str, ...], names: tuple[str, ...]) -> Kind:
    def arrange(sandbox: Path) -> Call:
        put(sandbox, "a.png", photo(1))
        put(sandbox, "b.png", photo(2))
        photos(sandbox)
        return Call(arguments, names, ("out",))

    return Kind(GROUP, name, "failure", arrange)
