"""Several processes give what one gives, and their failures are told as one's own."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch

from dualshield.errors import InputError, MissingWeightsError
from dualshield.evaluation.plan.plan import Plan
from dualshield.evaluation.plan.protocol import Protocol
from dualshield.evaluation.run import workers
from dualshield.evaluation.run.records import RESULTS, Key
from dualshield.evaluation.run.run import run_plan
from dualshield.evaluation.run.workers import Event, Finished, Group, Known, Runner, Started, share
from dualshield.hashes import PerceptualHash
from dualshield.images import CanonicalImage
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.noise import GaussianSource
from tests.helpers.interrupted import Killed, killed_at, results

PARTS = ("certified", "quality", "collisions")


def test_two_processes_give_what_one_gives(data: Path, tmp_path: Path, small: Protocol) -> None:
    """Workers are new processes, so nothing that tests patch is patched there: hence no attacks."""
    plan = Plan((deploy("pdq", method="votes"),), ("smoothing", "both"), PARTS, small, 2)
    with threads(max(1, workers.usable_cores() // 2)):
        run_plan(plan, [data], tmp_path / "one")
    whole = results(tmp_path / "one")
    out = tmp_path / "two"
    with pytest.raises(Killed):
        run_plan(plan, [data], out, jobs=2, progress=killed_at(3))
    assert 0 < len((out / RESULTS).read_text().splitlines()) < len(whole)
    run_plan(plan, [data], out, jobs=2, resume=True)
    found = results(out)
    assert found.keys() == whole.keys()
    for key, result in whole.items():
        for name, value in result.items():  # libraries may sum in another order elsewhere
            expected = pytest.approx(value, rel=1e-3) if isinstance(value, float) else value
            assert found[key][name] == expected, (key, name)
    certified = [result for key, result in found.items() if key.part == "certified"]
    assert {result["deployment"] for result in certified} == {plan.deployments[0].digest}


@contextmanager
def threads(count: int) -> Iterator[None]:
    """As many as each of the workers has: other sums would be rounded otherwise, and a bit might flip."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "deployment",
    [
        deploy("pdq"),
        deploy("pdq", sigma=3.0, lowpass=32, threshold=0.1, engine="torch", batch_size=5),
        deploy("pdq", for_codes=True),
        deploy("pdq", method="votes"),
        deploy("pdq", sigma="auto", n=77, lowpass=None, on_abstain="match"),
        deploy("pdq", sigma=0.5, lowpass=32, reference_mode="bank", bank_size=7, engine="torch", batch_size=5),
        deploy("pdq", for_codes=True, alpha=0.01, n0=9),
        deploy("pdq", parameters="paper"),
        deploy("pdq", parameters="paper-limit"),
        deploy("pdq", config=MatcherConfig(sigma=0.3, target_radius=0.5)),
        deploy("neuralhash+pdq", n=50),
        deploy(["neuralhash", "pdq"], threshold=0.1),
    ],
    ids=repr,
)
def test_a_deployment_of_names_travels_to_other_processes(deployment: Deployment) -> None:
    of_votes = {"n": 12, "target_radius": 0.0} if deployment.draws_noise else {}
    changed = deployment.with_config(**of_votes, threshold=0.05).with_config(threshold=0.06)
    for sent in (deployment, changed):
        found = pickle.loads(pickle.dumps(sent))
        assert isinstance(found, Deployment)
        assert found.digest == sent.digest
        assert found.describe() == sent.describe()
        assert (found.name, found.engine, found.batch_size) == (sent.name, sent.engine, sent.batch_size)
        for ours, theirs in zip(sent.members, found.members, strict=True):
            assert (ours.config, ours.profile, ours.hash.threshold) == (
                theirs.config,
                theirs.profile,
                theirs.hash.threshold,
            )
    assert changed.digest != deployment.digest
    assert len(pickle.dumps(deployment)) < 100_000  # no networks: these are loaded there


def test_one_that_has_travelled_enrols_the_same_reference(photos: list[CanonicalImage]) -> None:
    deployment = deploy("pdq", sigma="auto", method="votes").with_config(n=100)
    deployment.enroll(photos[0])  # whose engine runs already, and stays here
    found = pickle.loads(pickle.dumps(deployment))
    assert found.enroll(photos[1]).fingerprint == deployment.enroll(photos[1]).fingerprint
    reference = deployment.enroll(photos[1])
    results = [d.match(reference, photos[1], noise=GaussianSource.from_seed(1)) for d in (deployment, found)]
    assert results[0].radius == results[1].radius > 0


def test_a_deployment_of_hash_objects_travels_with_them(
    network_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    deployment = deploy([network_hash], config=MatcherConfig(sigma=0.5, n=100)).with_config(alpha=0.01)
    deployment.enroll(photos[0])
    found = pickle.loads(pickle.dumps(deployment))
    assert found.digest == deployment.digest
    assert found.enroll(photos[1]).fingerprint == deployment.enroll(photos[1]).fingerprint


def test_what_a_worker_cannot_do_is_told(data: Path, tmp_path: Path, small: Protocol) -> None:
    plan = Plan((deploy("pdq"),), ("smoothing",), ("certified",), small, 3)
    spoilt = sorted(data.iterdir())[2]  # which nobody has been given when the first two are begun

    def spoil(what: str, done: int, total: int, left: float | None) -> None:
        if "certified" in what:
            spoilt.write_bytes(b"no image")

    with pytest.raises(InputError, match=spoilt.name):
        run_plan(plan, [data], tmp_path / "run", jobs=2, progress=spoil)


def key_of(piece: int) -> Key:
    return Key("certified", "toy", "both", "set", f"{piece}", "")


def toy(fault: str) -> Runner:
    def run(piece: int, known: Known) -> Iterator[tuple[Key, dict[str, Any]]]:
        yield key_of(piece), {"worker": os.getpid(), "known": len(known), "threads": os.environ[workers.THREADS]}
        if piece == 2 and fault == "error":
            raise MissingWeightsError("hash toy: no weights")
        if piece == 2 and fault == "death":
            os.kill(os.getpid(), signal.SIGKILL)

    return run


def test_groups_are_shared_out_once() -> None:
    groups = [Group((2 * index, 2 * index + 1), {key_of(9): {}}) for index in range(3)]
    before = os.environ.get(workers.THREADS)
    events = list(share(groups, 2, partial(toy, "")))
    assert os.environ.get(workers.THREADS) == before
    for kind in (Started, Finished):
        assert sorted(event.piece for event in events if isinstance(event, kind)) == list(range(6))
    found = {event[0]: event[1] for event in events if isinstance(event, tuple)}
    assert found.keys() == {key_of(piece) for piece in range(6)}
    for group in groups:  # one worker does an image, because it keeps what it loaded and enrolled
        first, second = (found[key_of(piece)] for piece in group.pieces)
        assert first == second
        assert first["known"] == 1
    assert os.getpid() not in {result["worker"] for result in found.values()}


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [("error", MissingWeightsError, "no weights"), ("death", InputError, "fewer jobs")],
)
def test_faults_of_workers_end_the_run(fault: str, error: type[Exception], message: str) -> None:
    seen: list[Event] = []
    with pytest.raises(error, match=message):
        seen.extend(share([Group((piece,), {}) for piece in range(5)], 2, partial(toy, fault)))


def slow(marker: Path) -> Runner:
    def run(piece: int, known: Known) -> Iterator[tuple[Key, dict[str, Any]]]:
        (marker / f"{os.getpid()}").touch()
        time.sleep(600)
        yield key_of(piece), {}

    return run


def start_slow(marker: Path) -> None:
    list(share([Group((0,), {})], 2, partial(slow, marker)))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc which processes run")
def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    parent = get_context("spawn").Process(target=start_slow, args=(tmp_path,))
    parent.start()
    worker = int(next(found.name for found in waited_for(lambda: list(tmp_path.iterdir()))))
    parent.kill()
    parent.join()
    assert waited_for(lambda: not is_running(worker))


def waited_for(condition: Callable[[], Any], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    assert found
    return found


def is_running(process: int) -> bool:
    """Whether it still computes: what is dead but not fetched by its parent does not count."""
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_jobs_fit_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "usable_cores", lambda: 8)
    monkeypatch.setattr(workers, "memory_gib", lambda: 16.0)
    assert workers.default_jobs("cpu") == 5
    assert workers.default_jobs("cuda") == 1
    monkeypatch.setattr(workers, "memory_gib", lambda: 0.0)
    assert workers.default_jobs("cpu") == 1
