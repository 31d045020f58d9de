"""Run the paper's evaluation with one function call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dualshield._common.checks import PATH, require
from dualshield.errors import InputError
from dualshield.evaluation.plan.manifest import Manifest
from dualshield.evaluation.plan.plan import PARTS, Plan
from dualshield.evaluation.plan.protocol import PROTOCOLS, ProtocolName
from dualshield.evaluation.plan.variants import usual_variants
from dualshield.evaluation.run.run import Progress, Summary, run_plan
from dualshield.evaluation.run.workers import default_jobs
from dualshield.hashes import DEFAULT_HASH
from dualshield.smoothing.choose import ViewsLike
from dualshield.smoothing.deploy import HashLike, ProfileLike
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.names import Method
from dualshield.smoothing.variants import Variant

Folder = str | os.PathLike[str]


def evaluate(
    data: Folder | Sequence[Folder],
    out: Folder,
    *,
    hash: HashLike | Deployment | Sequence[HashLike | Deployment] = DEFAULT_HASH,
    variants: Sequence[Variant] | None = None,
    parts: Sequence[str] = PARTS,
    protocol: ProtocolName = "default",
    profile: ProfileLike | None = None,
    method: Method | None = None,
    views: ViewsLike | None = None,
    limit: int | None = None,
    skip: int = 0,
    attack_limit: int | None = None,
    seed: int = 2026,
    keep_images: bool = False,
    resume: bool = False,
    jobs: int | None = None,
    device: str = "cpu",
    manifest: Folder | None = None,
    progress: Progress = lambda what, done, total, left: None,
) -> Summary:
    """Measure certificates, attacks, transformations, collisions and image quality; write the results to ``out``.

    ``out`` keeps every single result; ``resume`` continues an interrupted run. Several hashes are measured one by one;
    ``a+b`` is two hashes that decide together. A deployment keeps its own parameters; a hash gets the protocol's.
    ``profile`` replaces the profile of a single hash in the default protocol; ``method`` and ``views`` are as in
    `deploy`. Without ``variants`` there are the plain hash (also with views, if there are any), smoothing, and both.
    ``manifest`` is a CSV file with dataset, file and sha256 of each image: only the listed images are measured, and any
    difference is an error.
    """
    require("out", out, *PATH)
    for name, given in (("data", data), ("parts", parts)):
        require(name, given, Sequence, os.PathLike)
    require("variants", variants, Sequence, or_none=True)
    for name, number in (("skip", skip), ("seed", seed)):
        require(name, number, int)
    for name, most in (("limit", limit), ("attack limit", attack_limit), ("jobs", jobs)):
        require(name, most, int, or_none=True)
    for name, text in (("protocol", protocol), ("device", device)):
        require(name, text, str)
    if protocol not in PROTOCOLS:
        raise InputError(f"unknown protocol {protocol!r}: use one of {', '.join(PROTOCOLS)}")
    chosen = PROTOCOLS[protocol]
    listed = list(hash) if isinstance(hash, Sequence) and not isinstance(hash, str) else [hash]
    if profile is not None and (len(listed) > 1 or any(isinstance(entry, Deployment) for entry in listed)):
        raise InputError("a profile belongs to one hash; leave it out with several hashes or with a deployment")
    if views is not None and any(isinstance(entry, Deployment) for entry in listed):
        raise InputError("a deployment has its own views; leave them out")
    deployments = tuple(
        entry if isinstance(entry, Deployment) else chosen.deploy(entry, device, profile, method, views)
        for entry in listed
    )
    plan = Plan(
        deployments,
        usual_variants(deployments, parts) if variants is None else tuple(variants),
        tuple(parts),
        chosen,
        chosen.images if limit is None else limit,
        seed,
        keep_images,
        attack_limit,
        skip,
    )
    for folder in [] if isinstance(data, str | os.PathLike) else data:
        require("data", folder, *PATH)
    folders = [data] if isinstance(data, str | os.PathLike) else list(data)
    workers = default_jobs(plan.device) if jobs is None else jobs
    require("manifest", manifest, *PATH, or_none=True)
    return run_plan(
        plan,
        [Path(folder) for folder in folders],
        Path(out),
        resume=resume,
        jobs=workers,
        manifest=None if manifest is None else Manifest.read(Path(manifest)),
        progress=progress,
    )
