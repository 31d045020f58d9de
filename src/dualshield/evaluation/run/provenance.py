"""Versions, weights and machine of a run, for its ``config.json``; without host name and paths."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from dualshield._version import __version__
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.profile import Profile

PACKAGES = ("torch", "numpy", "scipy", "pillow", "openvino", "torchmetrics", "onnx", "cryptography")


def versions() -> dict[str, str]:
    """Return the versions of all software that results depend on."""
    found = {"dualshield": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def machine() -> dict[str, Any]:
    """Return a description of the machine, to interpret the measured times."""
    return {
        "cpu": _cpu(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(memory_gib(), 1),
        "system": platform.system(),
    }


def memory_gib() -> float:
    """Return the memory of the machine in GiB; 0 if it is not known."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30 if hasattr(os, "sysconf") else 0.0


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def hash_facts(deployment: Deployment) -> dict[str, Any]:
    """Return the version, weights, profile and matcher of each member of a deployment."""
    return {
        member.hash.name: {
            "version": member.hash.version,
            "bits": member.hash.bits,
            "threshold": member.hash.threshold,
            "differentiable": member.hash.is_differentiable,
            "weights": member.hash.weights,
            "profile": None if member.profile is None else _digest(member.profile),
            "matcher": {**asdict(member.config), "views": member.config.views.to_json()},
            "deployment": deployment.digest,
        }
        for member in deployment.members
    }


def _digest(profile: Profile) -> dict[str, Any]:
    """Return the sha256 and main parameters of a profile, not all of it, because it may contain paths."""
    text = json.dumps(asdict(profile), sort_keys=True)
    chosen = {"lowpass": profile.lowpass, "sigma": profile.sigma, "threshold": profile.threshold}
    return {**chosen, "sha256": hashlib.sha256(text.encode()).hexdigest()}
