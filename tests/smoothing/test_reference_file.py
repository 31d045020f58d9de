"""References on disk: what is written is read again, and what a stranger wrote is checked."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dualshield.errors import InputError, UnusableReferenceError
from dualshield.hashes import PerceptualHash, to_hex
from dualshield.hashes.native_rule import NativeRule, l1
from dualshield.images import CanonicalImage
from dualshield.smoothing.deploy import deploy, match
from dualshield.smoothing.level import Level
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.reference_file import fingerprint_of
from tests.helpers.matchers import kept

Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize("mode", ["code", "bank", "paired"])
def test_a_saved_reference_is_the_same_when_it_is_loaded(
    mode: str, photos: list[CanonicalImage], tmp_path: Path
) -> None:
    deployment = deploy("pdq", reference_mode=mode, bank_size=15, n=60)  # type: ignore[arg-type]
    reference = deployment.enroll(photos[0])
    reference.save(tmp_path / "kept.dsref")
    again = Reference.load(tmp_path / "kept.dsref")
    assert again.fingerprint == reference.fingerprint
    assert (again.name, again.sigma, again.members[0].mode) == (reference.name, reference.sigma, mode)
    result = deployment.match(again, photos[0])
    assert (result.decision.value, result.reference_fingerprint) == ("match", reference.fingerprint)
    if mode == "code":
        assert (tmp_path / "kept.dsref").stat().st_size < 2000


def test_a_kept_reference_is_matched_by_its_path(photo_files: list[Path], tmp_path: Path) -> None:
    deployment = deploy("pdq", n=60)
    file = tmp_path / "kept.dsref"
    deployment.enroll(photo_files[0]).save(file)
    assert match(file, photo_files[0], hash=deployment).reference == photo_files[0].name
    assert match(str(file), photo_files[1], hash="pdq", n=60).decision.value == "no_match"


def test_the_file_does_not_tell_where_the_image_lay(photo_files: list[Path], tmp_path: Path) -> None:
    deploy("pdq").enroll(photo_files[0]).save(tmp_path / "kept.dsref")
    assert str(photo_files[0].parent) not in (tmp_path / "kept.dsref").read_text()


def test_several_hashes_and_native_values_are_kept(
    toy_hash: PerceptualHash, photos: list[CanonicalImage], tmp_path: Path
) -> None:
    rule = NativeRule("sum of margins", lambda margins: margins.float(), l1, 500.0)
    native = replace(toy_hash, native=rule)
    for deployment in (
        deploy([toy_hash, replace(toy_hash, name="other")], sigma=0.2, n=50),
        deploy(native, rule="native", sigma=0.2, n=50, reference_mode="bank", bank_size=5),
    ):
        reference = deployment.enroll(photos[0])
        reference.save(tmp_path / "kept.dsref")
        again = Reference.load(tmp_path / "kept.dsref")
        assert again.fingerprint == reference.fingerprint
        for one, two in zip(again.members, reference.members, strict=True):
            assert isinstance(one, MemberReference)
            assert isinstance(two, MemberReference)
            assert torch.equal(one.code, two.code)
        deployment.match(again, photos[0])


def test_a_bare_code_stays_one(photos: list[CanonicalImage], tmp_path: Path) -> None:
    deployment = deploy("pdq", for_codes=True)
    code = to_hex(deployment.hashes[0].code(photos[0].pixels))
    deployment.enroll_code(code).save(tmp_path / "kept.dsref")
    again = Reference.load(tmp_path / "kept.dsref")
    assert again.is_bare
    assert deployment.match(again, photos[0]).decision.value == "match"


@pytest.fixture
def written(photos: list[CanonicalImage], tmp_path: Path) -> Path:
    file = tmp_path / "kept.dsref"
    deploy("pdq", reference_mode="bank", bank_size=3).enroll(photos[0]).save(file)
    return file


def member(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["members"][0]
    return found


def level(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = member(data)["levels"][0]
    return found


def floats(count: int, said: int | None = None) -> str:
    data = zlib.compress(bytes(4 * count))
    return f"f4:{said or count}:{base64.b64encode(data).decode()}"


HOSTILE: dict[str, Change] = {
    "another format": lambda d: d.update(format="pickle"),
    "a later version": lambda d: d.update(version=3),
    "no members": lambda d: d.update(members=[]),
    "a hundred members": lambda d: d.update(members=d["members"] * 100),
    "members that are numbers": lambda d: d.update(members=[1]),
    "another field": lambda d: member(d).update(code_to_run="import os"),
    "no code": lambda d: level(d).pop("codes"),
    "a name that is a number": lambda d: d.update(name=7),
    "no level": lambda d: member(d).update(levels=[]),
    "three levels": lambda d: member(d).update(levels=[level(d)] * 3),
    "a second level without a second sigma": lambda d: member(d).update(levels=[level(d)] * 2),
    "a level that is a number": lambda d: member(d).update(levels=[3]),
    "a threshold of text": lambda d: level(d).update(threshold="0.2"),
    "a threshold above its configuration": lambda d: level(d).update(threshold=0.4),
    "a threshold below nothing": lambda d: level(d).update(threshold=-0.1),
    "a code too many": lambda d: level(d).update(codes=level(d)["codes"] * 2),
    "views that are a list": lambda d: member(d)["terms"].update(views=[]),
    "a view of a query that is rotated": lambda d: member(d)["terms"]["views"].update(query=[{}, {"rotation": 3}]),
    "a second sigma of text": lambda d: member(d)["terms"].update(second={"sigma": "1", "threshold": 0.1}),
    "a sigma of text": lambda d: level(d).update(sigma="1"),
    "a sigma it was not enrolled for": lambda d: level(d).update(sigma=0.123),
    "an endless sigma": lambda d: level(d).update(sigma=1e300),
    "a code of other bits": lambda d: level(d).update(codes=["8:ff"]),
    "a code that is no hex": lambda d: level(d).update(codes=["256:" + "zz" * 32]),
    "a code of a billion bits": lambda d: level(d).update(codes=["1000000000:00"]),
    "a code of numbers": lambda d: level(d).update(codes=[floats(256)]),
    "a bank of other codes": lambda d: member(d).update(bank=["8:ff"]),
    "an empty bank": lambda d: member(d).update(bank=[]),
    "an image where there is none": lambda d: member(d).update(pixels=floats(9)),
    "a bomb": lambda d: level(d).update(codes=[floats(50_000_000, said=256)]),
    "a mode that does not exist": lambda d: member(d)["terms"].update(mode="magic"),
    "a hash of no bits": lambda d: member(d)["terms"]["hash"].update(bits=0),
    "a rule that is a list": lambda d: member(d)["terms"].update(rule=[]),
    "terms of its own": lambda d: member(d)["terms"].update(more=1),
    "bare as a number": lambda d: member(d).update(bare=1),
    "bare with a bank": lambda d: member(d).update(bare=True),
    "a bank of fewer codes": lambda d: member(d).update(bank=member(d)["bank"][:2]),
    "a bank of bombs": lambda d: member(d).update(bank=[floats(4_000_000)] * 3),
    "a bank of millions": lambda d: (
        member(d)["terms"].update(draws=200_000),
        member(d).update(bank=[member(d)["plain"]] * 200_000),
    ),
    "a boundary without end": lambda d: member(d)["terms"].update(boundary="@1e999@"),
    "a version that is true": lambda d: d.update(version=True),
    "a name without end": lambda d: d.update(name="x" * 10_000),
    "a hash with more to say": lambda d: member(d)["terms"]["hash"].update(more="1"),
    "a hash of many weights": lambda d: member(d)["terms"]["hash"].update(weights={str(i): "" for i in range(999)}),
    "a thousand sigmas too many": lambda d: member(d)["terms"].update(sigmas=[1.0] * 2000),
    "nesting without end": lambda d: member(d)["terms"]["hash"].update(weights="@" + "[" * 990 + "]" * 990 + "@"),
    "other contents than its fingerprint": lambda d: member(d).update(plain=member(d)["plain"].replace("2", "3")),
    "another fingerprint": lambda d: d.update(fingerprint="0" * 64),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_a_stranger_changed_is_refused(what: str, written: Path) -> None:
    data = json.loads(written.read_text())
    HOSTILE[what](data)
    written.write_text(json.dumps(data).replace('"@', "").replace('@"', ""))
    with pytest.raises(UnusableReferenceError, match=r"kept\.dsref"):
        Reference.load(written)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "1e999", '{"format": NaN}', "[" * 100_000, "\x00\xff", '"dualshield-reference"']
)
def test_what_is_no_reference_at_all_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "kept.dsref"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(UnusableReferenceError, match=r"kept\.dsref"):
        Reference.load(file)


def test_codes_of_another_length_are_refused_where_they_are_used(
    toy_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    """A native rule compares values of any length; one value would be compared with each of them, and be certified."""
    native = replace(toy_hash, native=NativeRule("margins", lambda margins: margins.float(), l1, 500.0))
    deployment = deploy(native, rule="native", sigma=0.2, n=50)
    whole = kept(deployment.enroll(photos[0]))
    for length in (1, 3):
        levels = (Level(whole.sigma, whole.code[None, :length], None),)
        short = Reference("short", (replace(whole, levels=levels, plain=whole.plain[:length]),))
        with pytest.raises(UnusableReferenceError, match="values"):
            deployment.match(short, photos[0])


def test_an_image_outside_its_range_is_refused(photos: list[CanonicalImage], tmp_path: Path) -> None:
    file = tmp_path / "kept.dsref"
    deploy("pdq", reference_mode="paired").enroll(CanonicalImage(3 * photos[0].pixels, "bright")).save(file)
    with pytest.raises(UnusableReferenceError, match="outside"):
        Reference.load(file)


def test_what_is_no_path_is_refused(photos: list[CanonicalImage]) -> None:
    reference = deploy("pdq").enroll(photos[0])
    for path in (None, b"x", 5):
        with pytest.raises(InputError, match="file is of type"):
            Reference.load(path)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="file is of type"):
            reference.save(path)  # type: ignore[arg-type]
    for name in ("", "\0"):
        with pytest.raises(InputError):
            reference.save(name)


def test_values_that_are_not_finite_are_refused(photos: list[CanonicalImage], tmp_path: Path) -> None:
    file = tmp_path / "kept.dsref"
    image = CanonicalImage(photos[0].pixels.clone(), "photo")
    reference = deploy("pdq", reference_mode="paired").enroll(image)
    pixels = kept(reference).pixels
    assert pixels is not None
    assert pixels is not image.pixels  # what happens to the image later changes nothing
    pixels[0, 0, 0] = float("nan")
    assert fingerprint_of(reference.members)
    reference.save(file)
    with pytest.raises(UnusableReferenceError, match="not finite"):
        Reference.load(file)


def test_files_that_are_none_are_refused_without_waiting(tmp_path: Path) -> None:
    fifo, folder = tmp_path / "fifo.dsref", tmp_path / "folder.dsref"
    os.mkfifo(fifo)
    folder.mkdir()
    large = tmp_path / "large.dsref"
    with large.open("wb") as file:
        file.truncate(2**30)
    for path, words in (
        (fifo, "not a regular file"),
        (folder, "not a regular file"),
        (tmp_path / "missing.dsref", "no such file"),
        (Path("/dev/zero"), "not a regular file"),
        (large, "larger than the limit"),
    ):
        with pytest.raises(UnusableReferenceError, match=words):
            Reference.load(path)


def test_an_old_file_survives_a_write_that_fails(photos: list[CanonicalImage], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        deploy("pdq").enroll(photos[0]).save(tmp_path / "no-folder" / "kept.dsref")
