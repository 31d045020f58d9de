"""Checkpoints that are damaged, hostile or of another model are refused by name; good ones arrive unchanged."""

from __future__ import annotations

import argparse
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dualshield.errors import ExitCode, WeightsError
from dualshield.weights import load_strict, read_state
from dualshield.weights.torchscript import read_script_state


def good() -> dict[str, torch.Tensor]:
    return {"weight": torch.arange(6.0).view(2, 3), "bias": torch.tensor([1.0, -1.0]), "steps": torch.tensor(7)}


def save(folder: Path, data: Any, **options: Any) -> Path:
    path = folder / "model.pt"
    torch.save(data, path, **options)
    return path


class Dropper:
    """A pickle that would create a file when it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_good_checkpoint(zipped: bool, tmp_path: Path) -> None:
    state = read_state(save(tmp_path, good(), _use_new_zipfile_serialization=zipped), "toy")
    assert list(state) == ["weight", "bias", "steps"]
    assert all(torch.equal(state[key], value) for key, value in good().items())


def test_parameters_and_half_precision(tmp_path: Path) -> None:
    state = read_state(save(tmp_path, {"w": nn.Parameter(torch.ones(3)), "h": torch.ones(2).half()}), "toy")
    assert not state["w"].requires_grad
    net = nn.ParameterDict({"w": nn.Parameter(torch.zeros(3)), "h": nn.Parameter(torch.zeros(2))})
    load_strict(net, state, "toy", "model.pt")
    assert net["h"].dtype == torch.float32
    assert net["h"].tolist() == [1, 1]


def test_weights_beside_other_things(tmp_path: Path) -> None:
    path = save(tmp_path, {"epoch": 3, "args": argparse.Namespace(lr=0.1), "teacher": good()})
    assert list(read_state(path, "toy", inside="teacher")) == ["weight", "bias", "steps"]
    with pytest.raises(WeightsError, match=r"model\.pt: expected a checkpoint with an entry 'student', found .*epoch"):
        read_state(path, "toy", inside="student")
    with pytest.raises(WeightsError, match=r"hash toy: model\.pt: key 'epoch' holds int, expected a tensor"):
        read_state(path, "toy")


@pytest.mark.parametrize("zipped", [True, False])
def test_code_is_never_run(zipped: bool, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    path = save(tmp_path, {"weight": Dropper(victim)}, _use_new_zipfile_serialization=zipped)
    with pytest.raises(
        WeightsError, match=r"model\.pt: holds more than numbers \((posix|nt)\.mkdir\).*refused"
    ) as caught:
        read_state(path, "toy")
    assert not victim.exists()
    assert caught.value.exit_code == ExitCode.BAD_INPUT


def test_a_bare_pickle_with_code(tmp_path: Path) -> None:
    path, victim = tmp_path / "model.pt", tmp_path / "victim"
    for protocol in (2, 4):
        path.write_bytes(pickle.dumps({"weight": Dropper(victim)}, protocol=protocol))
        with pytest.raises(
            WeightsError, match=r"^hash toy: model\.pt: (holds more than numbers|not a readable)"
        ) as caught:
            read_state(path, "toy")
        assert len(str(caught.value)) < 120  # none of torch's advice on how to run the code after all
        assert not victim.exists()


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.7, 0.99])
def test_truncated(kept: float, zipped: bool, tmp_path: Path) -> None:
    path = save(tmp_path, {"weight": torch.randn(100, 100)}, _use_new_zipfile_serialization=zipped)
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data))])
    with pytest.raises(WeightsError, match=r"hash toy: model\.pt: .*(truncated|damaged).*download it again"):
        read_state(path, "toy")


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"<html>404</html>", bytes(1000)])
def test_garbage(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(data)
    with pytest.raises(WeightsError, match=r"hash toy: model\.pt") as caught:
        read_state(path, "toy")
    assert str(caught.value).isprintable()


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"model\.pt: cannot be read \(No such file"):
        read_state(tmp_path / "model.pt", "toy")


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ([torch.ones(2)], "found list"),
        (torch.ones(2), "found Tensor"),
        ({}, "found {}"),
        ({"a": torch.ones(2), "b": "text"}, "key 'b' holds str"),
        ({1: torch.ones(2)}, "key 1 holds Tensor"),
        ({"a": torch.tensor([1.0, float("nan")])}, "key 'a' holds NaN or infinity"),
        ({"a": torch.ones(2), "b": torch.tensor(float("-inf"))}, "key 'b' holds NaN or infinity"),
        ({"a": torch.ones(2, 2).to_sparse()}, "key 'a' is not a plain tensor"),
        ({"a": torch.ones(2, dtype=torch.complex64)}, "key 'a' is not a plain tensor"),
        ({"a\n\x1b": torch.ones(2), "b": 1}, "key 'b'"),
    ],
)
def test_what_is_not_a_state_dict(data: Any, named: str, tmp_path: Path) -> None:
    with pytest.raises(WeightsError) as caught:
        read_state(save(tmp_path, data), "toy")
    assert named in str(caught.value)


def test_a_few_numbers_that_claim_to_be_terabytes(tmp_path: Path) -> None:
    path = save(tmp_path, {"a": torch.zeros(1).expand(10**6, 10**6)})
    with pytest.raises(WeightsError, match=r"key 'a' claims a shape of \(1000000, 1000000\)"):
        read_state(path, "toy")


def test_a_compressed_archive(tmp_path: Path) -> None:
    path, packed = save(tmp_path, {"a": torch.zeros(10**5)}), tmp_path / "bomb.pt"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(WeightsError, match=r"bomb\.pt: a compressed archive"):
        read_state(packed, "toy")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "script.pt"
    torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2)).save(str(path))  # type: ignore[no-untyped-call]
    with pytest.raises(WeightsError, match=r"script\.pt: this is a TorchScript archive, expected a state_dict"):
        read_state(path, "toy")


class Strided(nn.Module):
    """Scripting keeps its list among the tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.stride = [2, 1]
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight.sum() * self.stride[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_script_with_a_list_of_integers(tmp_path: Path) -> None:
    path = tmp_path / "script.pt"
    torch.jit.script(Strided()).save(str(path))  # type: ignore[no-untyped-call]
    assert b"build_intlist" in path.read_bytes()
    assert {key: tensor.tolist() for key, tensor in read_script_state(path, "toy").items()} == {"weight": [1, 1, 1]}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.bn = nn.BatchNorm2d(2)


def test_load_strict_copies_everything() -> None:
    torch.manual_seed(0)
    source, target = Net(), Net()
    source.bn.running_mean.fill_(3)  # type: ignore[union-attr]
    load_strict(target, source.state_dict(), "toy", "model.pt")
    assert all(torch.equal(value, target.state_dict()[key]) for key, value in source.state_dict().items())
    # A copy: what is mapped from a file, or shared, must not change under the network.
    source.conv.weight.data.zero_()
    assert target.conv.weight.any()


def test_the_counter_of_batches_may_be_missing() -> None:
    state = Net().state_dict()
    del state["bn.num_batches_tracked"]
    load_strict(Net(), state, "toy", "model.pt")


def test_ignored_prefixes() -> None:
    state = {**Net().state_dict(), "teacher.x": torch.ones(1), "teacher.y": torch.ones(1)}
    load_strict(Net(), state, "toy", "model.pt", ignore=["teacher."])
    with pytest.raises(WeightsError, match=r"unexpected keys: teacher\.x, teacher\.y$"):
        load_strict(Net(), state, "toy", "model.pt", ignore=["student."])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda s: s.pop("conv.bias"), "missing keys: conv.bias"),
        (lambda s: s.update({"fc.weight": torch.ones(1)}), "unexpected keys: fc.weight"),
        (
            lambda s: s.update({"conv.weight": torch.ones(2, 3, 3, 3)}),
            "conv.weight (2, 3, 3, 3) instead of (2, 1, 3, 3)",
        ),
        (lambda s: s.update({"conv.bias": torch.ones(2, dtype=torch.int64)}), "conv.bias (torch.int64)"),
        (lambda s: s.update({f"x{i}": torch.ones(1) for i in range(9)}), "x0, x1, x2, x3 and 5 more"),
        (lambda s: s.clear(), "missing keys: conv.weight, conv.bias, bn.weight, bn.bias and 2 more"),
    ],
)
def test_wrong_keys_are_named(change: Callable[[dict[str, torch.Tensor]], Any], named: str) -> None:
    state, net = dict(Net().state_dict()), Net()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    change(state)
    with pytest.raises(WeightsError, match=r"^hash toy: model\.pt: not the weights of this model; ") as caught:
        load_strict(net, state, "toy", "model.pt")
    assert named in str(caught.value)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_hostile_key_names_stay_on_one_line() -> None:
    with pytest.raises(WeightsError) as caught:
        load_strict(Net(), {**Net().state_dict(), "a\n\x1b[31mb": torch.ones(1)}, "toy", "model.pt")
    assert str(caught.value).isprintable()
