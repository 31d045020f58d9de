"""Every kind of foreign hash from end to end: docs/any-hash.md as it is printed, the examples, black boxes."""

from __future__ import annotations

import importlib
import json
import re
import runpy
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dualshield
from dualshield.attacks import nes
from dualshield.attacks.methods import METHODS
from tests.helpers.command_line import complaint, run

ROOT = Path(__file__).parent.parent
PLUG_IN = ROOT / "examples" / "imagehash_plugin"
MODULES = ("differences", "average", "rows", "dualshield_imagehash")


def install(pyproject: Path, modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``pip install .`` does to the running Python: importable modules, and metadata with the entry points."""
    project = tomllib.loads(pyproject.read_text())["project"]
    folder = modules / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["dualshield.hashes"]
    lines = ["[dualshield.hashes]", *(f"{name} = {target}" for name, target in points.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(modules))
    importlib.invalidate_caches()


@pytest.fixture
def desk(tmp_path: Path, photo_files: list[Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with photo.jpg and upload.jpg, in which commands are run."""
    with Image.open(photo_files[2]) as image:
        image.convert("RGB").save(tmp_path / "photo.jpg", quality=95)
        image.convert("RGB").resize((320, 200)).save(tmp_path / "upload.jpg", quality=70)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(METHODS, "nes", partial(nes.attack, max_queries=100))  # the paper's 1,500 take too long here
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name, None)


# -- docs/any-hash.md ------------------------------------------------------------------------------


class Page:
    """The files that the page shows, written where they can be used, and the commands of each section."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, output: Callable[[], str]) -> None:
        self.folder, self.monkeypatch, self.output = folder, monkeypatch, output
        self.text = (ROOT / "docs" / "any-hash.md").read_text(encoding="utf-8")
        for block in re.findall(r"```(?:python|yaml|toml)\n(.*?)```", self.text, re.DOTALL):
            name = re.match(r"(?:#!.*\n)?# (\S+)\n", block)
            assert name, block
            (folder / name[1]).write_text(re.sub(r"^#!.*\n", f"#!{sys.executable}\n", block))

    def run(self, section: str) -> dict[str, str]:
        """Run the commands under a heading; what each printed."""
        part = re.split(rf"^#+ {section}$", self.text, flags=re.MULTILINE)[1]
        part = re.split(r"^#+ [A-Z]", part, flags=re.MULTILINE)[0]
        printed: dict[str, str] = {}
        for line in "\n".join(re.findall(r"```\n(dualshield.*?|python.*?|pip.*?|chmod.*?)```", part, re.DOTALL)).split(
            "\n"
        ):
            words = [word.replace("HEX", printed.get("hash", "")[:16]) for word in line.split()]
            match words:
                case ["dualshield", *arguments]:
                    assert run(*arguments) == 0, line
                case ["python", script]:
                    with warnings.catch_warnings():
                        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is deprecated", DeprecationWarning)
                        runpy.run_path(script, run_name="__main__")
                case ["pip", "install", "."]:
                    install(self.folder / "pyproject.toml", self.folder, self.monkeypatch)
                case ["chmod", "+x", file]:
                    Path(file).chmod(0o755)
                case []:
                    continue
                case _:
                    raise AssertionError(f"what is {line!r}?")
            key = words[1] if words[0] == "dualshield" else words[0]
            printed[key] = printed.get(key, "") + self.output()
        return printed


@pytest.fixture
def page(desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Page:
    def output() -> str:
        out, err = capsys.readouterr()
        # An attack on the plain hash needs no sigma, and may say that it is not calibrated.
        assert re.fullmatch(
            r"(dualshield: hash [\w-]+ is not calibrated, using sigma 0\.1; run dualshield calibrate\n)*", err
        )
        return out

    return Page(desk, monkeypatch, output)


def radius(text: str) -> float:
    found = re.search(r"radius (?:of )?\s*([\d.]+)", text)
    assert found, text
    return float(found[1])


def assert_the_published_reference_is_worth(expected: float) -> None:
    """As the page says: the kept reference is matched without its image, and has the radius that was reported."""
    deployment = dualshield.deploy(runpy.run_path("differences.py")["load"](), sigma=0.5, n=1000)
    reference = dualshield.Reference.load("published.dsref")
    assert deployment.match(reference, "published.jpg").radius == pytest.approx(expected, rel=0.05)
    assert deployment.match(reference, "upload.jpg").decision == "match"


def test_the_torch_module(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(page.folder))
    printed = page.run("A torch module")["python"]
    assert printed.startswith("match within")
    assert radius(printed) > 1
    assert "the plain hash is evaded" in printed
    with Image.open("published.jpg") as image, Image.open("photo.jpg") as original:
        assert image.size == original.size
    assert_the_published_reference_is_worth(radius(printed.splitlines()[1]))
    contract = runpy.run_path("test_differences.py")["TestDifferences"]()
    contract.test_gradient_reaches_the_pixels()
    contract.test_is_deterministic()


def test_the_linear_hash(page: Page) -> None:
    printed = page.run("A linear hash")["python"]
    assert printed.startswith("match within a proven radius of")
    assert radius(printed) > 1
    deployment = dualshield.deploy(runpy.run_path("rows.py")["load"](), method="exact", sigma=0.5)
    result = deployment.match(deployment.enroll("photo.jpg"), "upload.jpg")
    assert (result.member.method, result.alpha) == ("exact", 0.0)
    assert dualshield.Hardener(deployment).strategy == "exact"


def test_the_page_uses_public_names_only(page: Page) -> None:
    imports = re.findall(r"^(?:import|from) (dualshield\S*).*$", page.text, re.MULTILINE)
    assert set(imports) == {"dualshield", "dualshield.testing"}
    used = re.findall(r"\bds\.([A-Za-z_]+)(?:\.([a-z_]+))?", page.text)
    assert len(used) > 10
    for name, below in used:
        assert name in dualshield.__all__
        assert not below or hasattr(getattr(dualshield, name), below)


@pytest.mark.parametrize("model", ["differences.onnx", "differences.pt"])
def test_the_card(model: str, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(page.folder))
    card = page.folder / "differences.yaml"
    card.write_text(card.read_text().replace("differences.onnx ", f"{model} "))
    assert f"model: {model} " in card.read_text()
    check_differentiable(page.run("A card"))


def test_the_entry_point(page: Page) -> None:
    printed = page.run("An entry point")
    assert "differences of a 9 x 9" in printed["hashes"]
    check_differentiable(printed)


def check_differentiable(printed: dict[str, str]) -> None:
    """Matched, certified, hardened and evaded."""
    assert printed["match"].startswith("MATCH")
    assert radius(printed["match"]) > 1
    before, after = re.findall(r"([\d.]+) -> ([\d.]+)", printed["harden"])[0]
    assert float(after) >= float(before) > 0
    assert Path("published.png").is_file()
    assert "eot-pgd SUCCEEDED" in printed["attack"]


def test_the_function(page: Page) -> None:
    printed = page.run("A function")["python"]
    assert printed.startswith("match within")
    assert radius(printed) > 1


def test_the_program(page: Page) -> None:
    printed = page.run("A program")
    assert printed["match"].startswith("MATCH")
    assert 0.25 <= radius(printed["match"]) < 0.5


# -- a black box on the command line ---------------------------------------------------------------

FAST_PROGRAM = f"""#!{sys.executable} -IS
# Bits of an 8 x 8 PNG, against the mean or the pixel before, by the standard library alone: quick to start.
import struct, sys, zlib
data = open(sys.argv[1], "rb").read()
place, packed = 8, b""
while place < len(data):
    size, kind = struct.unpack(">I4s", data[place : place + 8])
    packed += data[place + 8 : place + 8 + size] if kind == b"IDAT" else b""
    place += size + 12
raw, above, grey = zlib.decompress(packed), [0] * 27, []
for row in range(8):
    kind, line = raw[row * 25], [0] * 3
    for i, value in enumerate(raw[row * 25 + 1 : row * 25 + 25]):
        a, b, c = line[i], above[i + 3], above[i]
        paeth = min((a, b, c), key=lambda x: abs(a + b - c - x))
        line.append((value + (0, a, b, (a + b) // 2, paeth)[kind]) % 256)
    grey += [sum(line[i : i + 3]) for i in range(3, 27, 3)]
    above = line
others = [sum(grey) / 64] * 64 if sys.argv[2] == "mean" else grey[-1:] + grey[:-1]
print("%016x" % int("".join(str(int(g > other)) for g, other in zip(grey, others)), 2))
"""


@pytest.fixture
def card(desk: Path) -> Path:
    program = desk / "average-hash"
    program.write_text(FAST_PROGRAM)
    program.chmod(0o755)
    file = desk / "fast.yaml"
    file.write_text('name: fast\nbits: 64\nthreshold: 0.02\nside: 8\ncommand: [./average-hash, "{file}", mean]\n')
    return file


def average_hash(image: Image.Image) -> SimpleNamespace:
    """A classical hash that answers as those of ImageHash do."""
    grey = np.asarray(image).astype(np.int64).sum(2)
    blocks = grey.reshape(8, grey.shape[0] // 8, 8, -1).sum((1, 3))
    return SimpleNamespace(hash=64 * blocks > blocks.sum())


def test_a_program_is_matched_and_certified(card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--hash", card, "--sigma", "0.1", "--n", "30", "--n0", "10", "--seed", "1", "--json")
    assert run("match", "photo.jpg", "upload.jpg", *arguments) == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert err == ""
    assert (record["decision"], record["hash"], record["engine"]) == ("match", "fast", "torch")
    assert record["radius"] > 0.05


def test_a_program_is_attacked_by_queries_only(card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Neighbours that are all but equal, and no tolerance: a hash that queries alone can evade soon.
    card.write_text(card.read_text().replace("mean", "before").replace("0.02", "0"))
    arguments = ("--hash", card, "--sigma", "0.1", "--method")
    assert run("attack", "photo.jpg", *arguments, "nes", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["success"]
    assert record["decision"] == "no_match"
    assert record["queries"] > 32
    for method in ("pgd", "eot-pgd", "collision"):
        query = ("upload.jpg",) if method == "collision" else ()
        assert run("attack", "photo.jpg", *query, *arguments, method) == 2
        assert "hash fast has no gradient: only black-box attacks (nes) can be used" in complaint(capsys)


def test_a_program_is_not_hardened(card: Path, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--hash", card, "--sigma", "0.1")
    assert run("harden", "photo.jpg", "-o", "out.jpg", *arguments) == 2
    assert "has no gradient, and hardening needs one" in complaint(capsys)
    assert run("attack", "photo.jpg", *arguments, "--method", "nes", "--against", "both") == 2
    assert "has no gradient, and hardening needs one" in complaint(capsys)
    assert not (desk / "out.jpg").exists()


def test_a_program_that_goes_away(card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = card.parent / "average-hash"
    program.chmod(0o644)
    assert run("hash", "photo.jpg", "--hash", card) == 3
    assert "hash fast: its program" in complaint(capsys)
    program.unlink()
    assert run("hash", "photo.jpg", "--hash", card) == 2
    assert "command: no such file" in complaint(capsys)


# -- examples --------------------------------------------------------------------------------------


@pytest.fixture
def plug_in(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example package, as if installed."""
    modules = desk / "modules"
    modules.mkdir()
    monkeypatch.syspath_prepend(str(PLUG_IN / "src"))
    install(PLUG_IN / "pyproject.toml", modules, monkeypatch)
    return importlib.import_module("dualshield_imagehash")


def test_the_plug_in_with_a_hash_of_ours(
    plug_in: Any,
    desk: Path,
    photo_files: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its wrapping code, without the package that it wraps; and a black box behind an entry point, calibrated too."""
    monkeypatch.setattr(plug_in, "_load", lambda function, name: plug_in.wrap(average_hash, name, "1", side=64))
    arguments = ("--hash", "imagehash-average", "--sigma", "0.5")
    assert run("match", "photo.jpg", "upload.jpg", *arguments, "--n", "500", "--json") == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert err == ""
    assert (record["decision"], record["engine"]) == ("match", "torch")
    assert record["radius"] > 1
    assert run("attack", "photo.jpg", *arguments, "--method", "nes", "--budget", "90", "--json") == 0
    assert json.loads(capsys.readouterr().out)["queries"] > 0
    assert run("harden", "photo.jpg", "-o", "out.jpg", *arguments) == 2
    assert "hash imagehash-average has no gradient, and hardening needs one" in complaint(capsys)
    few = ("--grid", "none:0.5", "--images", 2, "--variant-images", 1, "--radius-images", 1, "--draws", 60)
    data = desk / "data"
    data.mkdir()
    for file in photo_files[:3]:
        (data / file.name).write_bytes(file.read_bytes())
    assert run("calibrate", *arguments[:2], "--data", data, *few, "-o", "mine.json") == 0
    assert json.loads(Path("mine.json").read_text())["hash"] == "imagehash-average"


def test_the_plug_in_without_imagehash(
    plug_in: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "imagehash", None)
    assert run("hash", "photo.jpg", "--hash", "imagehash-perceptual") == 3
    assert "hash imagehash-perceptual needs the package ImageHash; run: pip install ImageHash" in complaint(capsys)


def test_the_examples_with_imagehash(
    plug_in: Any, photo_files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    imagehash = pytest.importorskip("imagehash")
    for name, function in (("average", "average_hash"), ("difference", "dhash"), ("perceptual", "phash")):
        few = ("--hash", f"imagehash-{name}", "--sigma", "0.3", "--n", "60", "--json")
        assert run("match", "photo.jpg", "upload.jpg", *few) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["decision"] == "match"
        assert record["radius"] > 0
        hash_ = getattr(plug_in, name)()
        assert hash_.version == imagehash.__version__
        with Image.open("photo.jpg") as image:
            theirs = getattr(imagehash, function)(image).hash.ravel()
        assert (hash_.code(dualshield.load_image("photo.jpg").pixels).numpy() != theirs).sum() <= 2
    script = str(ROOT / "examples" / "imagehash_script.py")
    for other, decision in (("upload.jpg", "match"), (str(photo_files[1]), "no_match")):
        monkeypatch.setattr(sys, "argv", [script, "photo.jpg", other])
        runpy.run_path(script, run_name="__main__")
        assert re.match(rf"{decision} within an l2 radius of \d", capsys.readouterr().out)
    for arguments, complaint_ in (([], "pip install ImageHash"), (["photo.jpg", "none.jpg"], "error: .*none.jpg")):
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        with pytest.raises(SystemExit, match=complaint_):
            runpy.run_path(script, run_name="__main__")
