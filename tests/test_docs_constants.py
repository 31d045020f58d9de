"""Every constant that docs/METHOD.md quotes is the one in the code."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dualshield.hardening import gradient, objective, paper, visibility
from dualshield.hashes import get_hash
from dualshield.images.decode import GAINS
from dualshield.images.space import CANONICAL_SIZE
from dualshield.smoothing import config, detection, profile, sequential
from dualshield.smoothing.result import NUMBERS
from tests.helpers.profiles import deployed

METHOD = (Path(__file__).parent.parent / "docs" / "METHOD.md").read_text(encoding="utf-8")
PROSE = " ".join(METHOD.split("## 9.")[0].split())
WORDS = {"two": 2, "four": 4, "fourth": 4, "five": 5, "eight": 8, "sixteen": 16, "one": 1}
ROWS = re.findall(r"^\| ([^|]+) \| ([\d., ]+) \| ((?:`[\w.]+`(?:, )?)+) \|$", METHOD, re.MULTILINE)


def value_of(name: str) -> Any:
    """`smoothing.config.PAPER.n0`: a module of the package, and names in it."""
    parts = name.split(".")
    place = next(i for i, part in enumerate(parts) if part.isupper())
    module = import_module(".".join(["dualshield", *parts[:place]]))
    return reduce(getattr, parts[place:], module)


def number(text: str) -> float:
    if text in WORDS:
        return WORDS[text]
    above, _, below = text.replace(",", "").partition("/")
    return float(above) / float(below or 1)


def test_the_table_is_read_as_a_whole() -> None:
    lines = METHOD.split("## 9.")[1].splitlines()
    assert len(ROWS) == sum(line.startswith("|") for line in lines) - 2
    assert len(ROWS) > 20


@pytest.mark.parametrize(("label", "shown", "names"), ROWS, ids=[row[0] for row in ROWS])
def test_the_table(label: str, shown: str, names: str) -> None:
    found: list[float] = []
    for name in re.findall(r"`([\w.]+)`", names):
        value = value_of(name)
        found += value if isinstance(value, tuple) else [value]
    assert [number(text) for text in shown.split(", ")] == found


# A sentence of the page with its numbers in groups, and what these must be.
QUOTED: dict[str, list[float]] = {
    r"becomes RGB, (\d+)x(\d+), float": [CANONICAL_SIZE, CANONICAL_SIZE],
    r"10 log10\((\d+) / R²\)": [NUMBERS],
    r"255 R / sqrt\((\d+)\)": [NUMBERS],
    r"(\d) for RGB with alpha or CMYK": [GAINS["RGBA"]],
    r"A\(p\) >= ([\d.]+\d)": [1 - detection.MISSED],
    r"with probability at least ([\d.]+\d) on fresh noise": [1 - detection.MISSED],
    r"\(alpha up to ([\d.]+\d)\)": [detection.MISSED],
    r"each may miss ([\d.]+)/k": [detection.MISSED],
    r"L of (\d+) x (\d+) and Y the luma": [16, CANONICAL_SIZE],
    r"a draw takes (\d+) normals instead of ([\d,]+\d)": [256, NUMBERS],
    r"match within (one) point of the plain hash": [100 * profile.VARIANT_TOLERANCE],
    r"([\d.]+\d) at the paper's parameters": [round(config.PAPER.radius_ceiling, 4)],
    r"after every (fourth) vote at first, and after every (\d+)nd from (\d+) on": [
        sequential.FINE,
        sequential.COARSE,
        sequential.CLEAR,
    ],
    r"is at most (\d+) \(([\d.]+) times that for hashes": [visibility.NORM, gradient.SPREAD],
    r"no pixel changes by more than ([\d.]+) thresholds": [visibility.PEAK],
    r"canonical image stays at least ([\d.]+\d)\.": [1 - visibility.SSIM_LOSS],
    r"the loss of SSIM, and is at most (\d)": [visibility.MAX_STRENGTH],
    r"is a (\d+) x (\d+) field": [gradient.FIELD, gradient.FIELD],
    r"and (two) adversaries inside an l2 ball of (eight) sigmas": [gradient.ADVERSARIES, gradient.ATTACK_RADIUS],
    r"Each step has (four) positives": [2 + gradient.ADVERSARIES],
    r"the matching distance plus (four) bits": [objective.MARGIN_BITS],
    r"(\d+) sign steps of (1/255) in an l_inf ball of (16/255)": [paper.STEPS, paper.STEP_SIZE, paper.LINF],
    r"(sixteen) draws at sigma ([\d.]+\d), an inner attack of (five) steps": [
        paper.POSITIVE_DRAWS,
        paper.SIGMA,
        paper.INNER_STEPS,
    ],
    r"hinges at (four) bits, sharpness (\d), weights (\d) and ([\d.]+\d)\.": [
        objective.MARGIN_BITS,
        objective.SHARPNESS,
        paper.NEGATIVE_WEIGHT,
        paper.DISTORTION_WEIGHT,
    ],
}


@pytest.mark.parametrize("pattern", QUOTED)
def test_the_sentences(pattern: str) -> None:
    found = re.search(pattern, PROSE)
    assert found, "the sentence is not in docs/METHOD.md any more: change the pattern with it"
    assert [number(text) for text in found.groups()] == pytest.approx(QUOTED[pattern], rel=1e-12)


def test_the_gains() -> None:
    assert "1 for RGB, sqrt(3) for grey (one sample moves three)" in PROSE
    assert "sqrt(6) for grey with alpha" in PROSE
    assert GAINS["RGB"] == 1
    assert GAINS["CMYK"] == GAINS["RGBA"] == 2
    assert GAINS["L"] == pytest.approx(3**0.5)
    assert GAINS["LA"] == pytest.approx(6**0.5)


def test_pdq() -> None:
    config = deployed("pdq", method="votes")
    assert get_hash("pdq").front_end.core_shape[-2:] == (16, 16)
    assert "Its core is 16 x 16" in PROSE
    found = re.search(r"A (\d+) x \1 low-pass in front", PROSE)
    assert found
    assert int(found[1]) == config.lowpass
    found = re.search(r"The matcher of votes caps PDQ's sigma at ([\d.]+)", PROSE)
    assert found
    assert float(found[1]) == max(config.sigmas)


def test_the_band_of_the_threshold_map() -> None:
    found = re.search(r"in the band of about (\d+) to (\d+) pixels", PROSE)
    assert found
    source = Path(visibility.__file__).read_text(encoding="utf-8")
    assert f"coarse = _blur(luma, {found[1]})" in source
    assert f"coarse - _blur(coarse, {found[2]})" in source
