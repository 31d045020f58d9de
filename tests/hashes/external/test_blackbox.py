"""Black-box hashes: the same votes as the network they hide, and everything a foreign function can do wrong."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import yaml
from PIL import Image

from dualshield.engines import openvino as openvino_engine
from dualshield.engines.choose import make_engine
from dualshield.errors import CardError, InputError, MissingDependencyError
from dualshield.hardening.harden import Hardener
from dualshield.hashes import get_hash, to_hex
from dualshield.hashes.external.black_box import black_box, to_bits
from dualshield.hashes.external.command import command_hash
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import CanonicalImage, FrontEnd
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.noise import GaussianSource
from dualshield.testing import HashContract

Pixels = npt.NDArray[np.uint8]


def average_hash(pixels: Pixels) -> npt.NDArray[np.bool_]:
    """64 bits of an 8 x 8 image: above its mean or not."""
    grey = pixels.astype(np.int64).sum(2)
    above: npt.NDArray[np.bool_] = 64 * grey > grey.sum()
    return above


class Average(torch.nn.Module):
    """The same as a network of features rounded to 8 bits."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        grey = (features * 255).round().clamp(0, 255).sum(1).flatten(1)
        return grey - grey.mean(1, keepdim=True) - 1e-4


def open_box() -> PerceptualHash:
    return PerceptualHash(
        name="average", version="1", bits=64, front_end=FrontEnd.identity().resize(8, 8), network=Average()
    )


def closed_box(function: Callable[[Any], Any] = average_hash, **options: Any) -> PerceptualHash:
    return black_box(function, **{"name": "average", "bits": 64, "side": 8, "takes": "array", **options})


class TestContract(HashContract):
    def load(self) -> PerceptualHash:
        return closed_box()


# -- what it computes ------------------------------------------------------------------------------


def test_it_votes_as_the_network_it_hides(photos: list[CanonicalImage]) -> None:
    config = MatcherConfig(sigma=2.0, n=300, bank_size=101)
    results = []
    for hash_ in (open_box(), closed_box()):
        deployment = deploy(hash_, config=config, batch_size=4)
        reference = deployment.enroll_code(hash_.code(photos[0].pixels))
        noise = GaussianSource.from_seed(5)
        results.append([deployment.match(reference, photo, noise=noise).member for photo in photos[:3]])
    for one, other in zip(*results, strict=True):
        assert replace(one, seconds=0) == replace(other, seconds=0)
    assert [result.decision for result in results[1]] == ["match", "no_match", "no_match"]
    assert min(result.radius for result in results[1]) > 1


def test_the_function_sees_the_file_itself(photo_files: list[Path], photos: list[CanonicalImage]) -> None:
    seen: list[Any] = []

    def look(image: Any) -> str:
        seen.append(image)
        return "ff"

    hash_ = black_box(look, name="look", bits=8)
    hash_.code(photos[0].pixels)
    assert isinstance(seen[-1], Image.Image)
    assert (seen[-1].mode, seen[-1].size) == ("RGB", (512, 512))
    with Image.open(photo_files[0]) as image:
        assert image.size == (512, 512)
        assert np.array_equal(np.asarray(seen[-1]), np.asarray(image.convert("RGB")))
    black_box(look, name="look", bits=8, side=16, takes="array").code(photos[0].pixels)
    array: Any = seen[-1]
    assert (array.dtype, array.shape) == (np.uint8, (16, 16, 3))


def test_noise_beyond_the_valid_pixels_is_clipped() -> None:
    seen: list[Pixels] = []

    def look(pixels: Pixels) -> str:
        seen.append(pixels)
        return "f0"

    closed_box(look, bits=8, side=2).network(torch.tensor([-7.0, 0.4, 0.5, 9.0]).expand(1, 3, 4).reshape(1, 3, 2, 2))
    assert seen[-1][..., 0].tolist() == [[0, 102], [128, 255]]


def test_what_the_function_does_to_its_argument_stays_there() -> None:
    def vandal(pixels: Pixels) -> npt.NDArray[np.bool_]:
        bits = average_hash(pixels)
        pixels[:] = 0
        return bits

    pixels = torch.rand(3, 3, 512, 512, generator=torch.Generator().manual_seed(1))
    assert torch.equal(closed_box(vandal).margins(pixels), closed_box().margins(pixels))


@pytest.mark.parametrize(
    "answer",
    [
        np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0], [1, 1, 0]]),
        [True, False, True, False, False, True, True, True, False, True, True, False],
        torch.tensor([1.0, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 0]),
        bytes([0xA7, 0x60]),
        bytearray([0xA7, 0x60]),
        "a76",
        "A76\n",
    ],
)
def test_every_form_of_an_answer(answer: Any) -> None:
    assert to_bits(answer, 12).tolist() == [c == "1" for c in "101001110110"]


# -- without gradients -----------------------------------------------------------------------------


def test_torch_is_chosen_without_a_word(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("OpenVINO was tried")

    monkeypatch.setattr(openvino_engine.OpenVinoEngine, "__init__", never)
    assert make_engine(closed_box()).name == "torch"
    assert caplog.text == ""
    with pytest.raises(InputError, match="average is a black box, which OpenVINO cannot run; use engine torch"):
        make_engine(closed_box(), "openvino")


def test_it_is_not_light_and_not_differentiable() -> None:
    hash_ = closed_box()
    assert not hash_.has_small_network  # or enrollment would ask it a thousand times
    assert not hash_.is_differentiable
    assert not hash_.with_lowpass(8).is_differentiable
    with pytest.raises(InputError, match="hash average has no gradient, and hardening needs one"):
        Hardener(deploy(hash_, sigma=0.1))


def test_a_network_without_gradient_cannot_be_hardened_either() -> None:
    class Step(torch.nn.Module):
        def forward(self, features: torch.Tensor) -> torch.Tensor:
            return (features.flatten(1) > 0.5).float() - 0.5

    hash_ = replace(open_box(), network=Step(), bits=192)
    with pytest.raises(InputError, match="has no gradient, and hardening needs one"):
        Hardener(deploy(hash_, sigma=0.1))


# -- functions that misbehave ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (np.ones(63, bool), "it gave 63 values, expected 64 bits"),
        (np.ones(65, bool), "it gave 65 values, expected 64 bits"),
        (bytes(7), "it gave 7 bytes, 64 bits need 8"),
        ("ab", "code 'ab' has 2 hex digits, a hash of 64 bits needs 16"),
        ("z" * 16, "is not hexadecimal"),
        (np.full(64, 2), "values other than 0 and 1"),
        (np.full(64, np.nan), "values other than 0 and 1"),
        (None, "it gave NoneType, expected bools"),
        (np.array(["0"] * 64), "it gave ndarray, expected bools"),
        ([[1], [0, 1]], "it gave list, which is not an array of bits"),
    ],
)
def test_a_wrong_answer(answer: Any, why: str) -> None:
    with pytest.raises(InputError, match=f"hash average: .*{why}"):
        closed_box(lambda _: answer)


@pytest.mark.parametrize("answer", ["a77", bytes([0xA7, 0x61])])
def test_bits_beyond_the_last(answer: Any) -> None:
    with pytest.raises(InputError, match="bits set beyond the 11 of this hash"):
        closed_box(lambda _: answer, bits=11)


@pytest.mark.parametrize("error", [KeyError("left\npad"), SystemExit("pad")])
def test_an_exception(error: BaseException) -> None:
    def fail(_: Pixels) -> str:
        raise error

    with pytest.raises(InputError, match=r"hash average: its function failed \(\w+: .*pad'?\)") as caught:
        closed_box(fail)
    assert "\n" not in str(caught.value)


def test_chance() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match="hash average: two calls on the same image gave different bits"):
        closed_box(lambda _: rng.integers(0, 2, 64))


@pytest.mark.parametrize(("field", "value"), [("bits", 0), ("bits", 65537), ("side", 0), ("side", 513), ("takes", "x")])
def test_impossible_parameters(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"hash average: .*{value}"):
        closed_box(**{field: value})


# -- programs --------------------------------------------------------------------------------------

HEADER = f"#!{sys.executable} -IS\nimport sys, os, time, zlib\n"
# The checksum of the PNG: as good as a hash of an unchanged image, and quick to start.
FROM_FILE = "print('%08x' % zlib.crc32(open(sys.argv[1], 'rb').read()), sys.argv[1])"
FROM_STDIN = "print('%08X' % zlib.crc32(sys.stdin.buffer.read()))"


def program(folder: Path, body: str, name: str = "prog") -> Path:
    file = folder / name
    file.write_text(HEADER + body + "\n")
    file.chmod(0o755)
    return file


def by_program(folder: Path, body: str, *arguments: str, **options: Any) -> PerceptualHash:
    return command_hash([str(program(folder, body)), *arguments], name="prog", **{"bits": 32, "side": 16, **options})


def test_by_file_and_by_stdin(tmp_path: Path, photos: list[CanonicalImage]) -> None:
    by_file = by_program(tmp_path, FROM_FILE, "{file}")
    code = by_file.code(photos[0].pixels)
    by_stdin = by_program(tmp_path, FROM_STDIN)
    assert torch.equal(by_stdin.code(photos[0].pixels), code)
    assert not torch.equal(by_stdin.code(photos[1].pixels), code)
    assert len(to_hex(code)) == 8


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    by_program(tmp_path, FROM_FILE, "{file}")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.exit('no such model')", r"prog failed with exit code 1 \(no such model\)"),
        ("os.kill(os.getpid(), 9)", "prog failed with exit code -9"),
        ("pass", "prog printed nothing, expected one line of hex"),
        ("print('12345678\\n12345678')", "prog printed 2 lines, expected one line of hex"),
        ("print('1234567')", "code '1234567' has 7 hex digits, a hash of 32 bits needs 8"),
        ("print('0x123456')", "code '0x123456' is not hexadecimal"),
        ("os.write(1, bytes(range(128, 256)))", "hex digits"),
        ("while True: os.write(1, b'a' * 65536)", "prog printed more than 262144 bytes"),
        ("print('%08x' % time.time_ns().__hash__().__and__(0xffffffff))", "two calls on the same image gave different"),
    ],
)
def test_a_program_that_misbehaves(body: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"hash prog: .*{why}"):
        by_program(tmp_path, body)


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(60)",
        # The pipe stays open in a child, which has to go too; and a program may close its pipes and stay.
        "os.fork(); time.sleep(60)",
        "os.close(1); os.close(2); time.sleep(60)",
    ],
)
def test_a_program_that_hangs(body: str, tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(InputError, match=r"hash prog: its program prog did not end within 0\.3 s"):
        by_program(tmp_path, body, timeout=0.3)
    assert time.monotonic() - started < 20


def test_what_a_hanging_program_started_ends_with_it(tmp_path: Path) -> None:
    body = f"""
child = os.fork()
if child:
    open({str(tmp_path / "child")!r}, "w").write(str(child))
time.sleep(60)"""
    with pytest.raises(InputError, match="did not end within"):
        by_program(tmp_path, body, timeout=0.5)
    state = Path("/proc", (tmp_path / "child").read_text(), "stat")
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc")
    for _ in range(100):
        # Gone, or a zombie that waits for whoever inherited it.
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the child of a program that was stopped is still running")


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    file = program(tmp_path, FROM_STDIN)
    file.chmod(0o644)
    for command in (["dualshield-no-such-program"], [str(tmp_path / "none")], [str(file)]):
        with pytest.raises(MissingDependencyError, match=r"hash prog: its program .* is not found or not exec"):
            command_hash(command, name="prog", bits=32)


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_text("#!/no/such/interpreter\n")
    file.chmod(0o755)
    with pytest.raises(InputError, match="hash prog: its program prog cannot be started"):
        command_hash([str(file)], name="prog", bits=32)


@pytest.mark.parametrize("command", ["phash {file}", [], [""], ["a\0b"], [1]])
def test_a_command_that_is_no_list_of_words(command: Any) -> None:
    with pytest.raises(InputError, match="hash prog: its command"):
        command_hash(command, name="prog", bits=32)


# -- cards -----------------------------------------------------------------------------------------


def write_card(folder: Path, **fields: Any) -> str:
    file = folder / "card.yaml"
    file.write_text(yaml.safe_dump({"name": "prog", "bits": 32, "command": ["./prog", "{file}"], "side": 16, **fields}))
    return str(file)


def test_a_card_with_a_program_beside_it(
    tmp_path: Path, photos: list[CanonicalImage], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    expected = by_program(folder, FROM_FILE, "{file}").code(photos[0].pixels)
    (folder / "script.py").write_text("import sys, zlib\n" + FROM_STDIN)
    monkeypatch.chdir(elsewhere)
    # As a path relative to the card, and a script that is relative to it.
    cards = ({"command": ["../folder/prog", "{file}"]}, {"command": [sys.executable, "-IS", "./script.py"]})
    for fields, files in zip(cards, ({"prog"}, {Path(sys.executable).name, "script.py"}), strict=True):
        hash_ = get_hash(write_card(folder, version="7", threshold=0.1, about="theirs", timeout=5, **fields))
        monkeypatch.chdir(tmp_path)
        assert torch.equal(hash_.code(photos[0].pixels), expected)
        assert (hash_.name, hash_.version, hash_.threshold, hash_.about) == ("prog", "7", 0.1, "theirs")
        assert set(hash_.weights) == files
        assert hash_.front_end.shape == (3, 16, 16)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"command": "./prog {file}"}, "command: expected a list of program and arguments, got './prog {file}'"),
        ({"command": []}, "command: expected a list"),
        ({"command": ["./prog", 7]}, "command: expected a list"),
        ({"command": ["./none"]}, "command: no such file"),
        ({"command": ["./prog", "./none"]}, "command: no such file"),
        ({"command": ["/"]}, "command: not a file"),
        ({"timeout": 0}, "timeout: expected seconds up to 3600, got 0"),
        ({"timeout": "soon"}, "timeout: expected a finite number"),
        ({"side": 513}, "side: expected a whole number from 1 to 512"),
        ({"model": "model.onnx"}, "model: unknown field"),
        ({"sha256": "0" * 64}, "sha256: unknown field"),
        ({"input": {"size": 8}}, "input: unknown field"),
    ],
)
def test_a_card_that_is_wrong(fields: dict[str, Any], why: str, tmp_path: Path) -> None:
    program(tmp_path, FROM_FILE)
    with pytest.raises(CardError, match=why):
        get_hash(write_card(tmp_path, **fields))


def test_a_shell_is_never_asked(tmp_path: Path) -> None:
    program(tmp_path, "print('%08x' % len(sys.argv[1]))")
    hash_ = get_hash(write_card(tmp_path, command=["./prog", "; touch pwned $(touch pwned)"]))
    assert int(to_hex(hash_.code(torch.zeros(3, 512, 512))), 16) == len("; touch pwned $(touch pwned)")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["card.yaml", "prog"]
