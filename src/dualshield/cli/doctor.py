"""``dualshield doctor``: what works here, what does not, and what to do about it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from dualshield._common import folders
from dualshield._common.extras import EXTRAS, how_to_install, missing_packages
from dualshield._common.installation import CORE, broken_packages, can_write, versions
from dualshield._common.settings import VARIABLES, Setting, load_settings, user_settings_file
from dualshield._version import __version__
from dualshield.cli.answers import echo_object
from dualshield.cli.session import hint
from dualshield.errors import DualShieldError, ExitCode
from dualshield.hashes.registry import DEFAULT_HASH

Row = dict[str, Any]
DEFAULTS = {"hash": DEFAULT_HASH, "profile": "that of the hash", "engine": "auto", "threads": "all cores"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout and nothing else.")
def doctor(as_json: bool) -> int:
    """Check this installation: packages, engines, hashes and their weights, folders, settings.

    The exit code is 1 if the hash that is used by default does not work, or the settings cannot be read.
    """
    found = examine()
    if as_json:
        echo_object(found)
    else:
        for line in _lines(found):
            click.echo(line)
        if not found["problems"]:
            hint("\nAll that the default hash needs is here.")
    return ExitCode.CONDITION if found["problems"] else ExitCode.DONE


def examine() -> Row:
    """Everything, also where parts of it are broken."""
    problems: list[str] = []
    settings: dict[str, Setting] = {}
    try:
        settings = load_settings()
    except DualShieldError as error:
        problems.append(f"settings: {error}")
    broken = broken_packages()
    problems += [
        f"package {CORE[package]} cannot be imported ({why}); run: pip install --force-reinstall {CORE[package]}"
        for package, why in broken.items()
    ]
    found: Row = {"versions": {"dualshield": __version__, **versions()}, "machine": _machine(), "engines": []}
    found["extras"] = [_extra(name) for name in EXTRAS]
    found["hashes"] = []
    if not broken:
        _use_threads(settings, problems)
        found["machine"] |= _torch()
        found["engines"] = _engines()
        found["hashes"] = _hashes()
        problems += _default_hash_problems(settings)
    found["folders"] = [_folder(name, folder) for name, folder in _folders().items()]
    found["settings"] = [_setting(name, settings) for name in VARIABLES]
    return found | {"problems": problems}


def _machine() -> Row:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"system": platform.system(), "architecture": platform.machine(), "cores": usable}


def _torch() -> Row:
    import torch

    cuda = torch.cuda.is_available()
    return {"threads": torch.get_num_threads(), "cuda": torch.cuda.get_device_name() if cuda else None}


def _use_threads(settings: dict[str, Setting], problems: list[str]) -> None:
    """As every other command does."""
    import torch

    value = os.environ.get(VARIABLES["threads"]) or (settings["threads"].value if "threads" in settings else None)
    try:
        if value is not None:
            torch.set_num_threads(int(value))
    except (ValueError, RuntimeError):
        problems.append(f"settings: {VARIABLES['threads']} is {str(value)[:80]!r}, which is no number of threads")


def _engines() -> list[Row]:
    from dualshield.engines.openvino import openvino_runtime

    try:
        devices = openvino_runtime().Core().available_devices
        state = {"available": "CPU" in devices, "detail": "the fastest on this CPU" if "CPU" in devices else "no CPU"}
    except Exception as error:  # whatever it is, torch computes the same
        state = {"available": False, "detail": " ".join(str(error).split())}
    return [{"engine": "openvino", **state}, {"engine": "torch", "available": True, "detail": "always there"}]


def _extra(name: str) -> Row:
    missing = missing_packages(name)
    return {"extra": name, "installed": not missing, "missing": missing, "install": how_to_install(name)}


def _hashes() -> list[Row]:
    from dualshield.hashes import list_hashes
    from dualshield.weights import states

    files: dict[str, dict[str, str]] = {}
    for file in states():
        word = "damaged" if file.problem else "missing" if file.stored is None else "imported"
        files.setdefault(file.weight.hash, {})[file.weight.name] = word
    return [
        {"hash": hash_.name, "state": hash_.state, "detail": hash_.detail, "weights": files.get(hash_.name, {})}
        for hash_ in list_hashes()
    ]


def _default_hash_problems(settings: dict[str, Setting]) -> Iterator[str]:
    """Loads the hash that is used where none is named, and hashes an image with it."""
    import torch

    from dualshield.cli.options import hash_setting
    from dualshield.hashes import DEFAULT_HASH, get_hash
    from dualshield.hashes.registry import split_names
    from dualshield.images.space import CANONICAL_SIZE

    spec = os.environ.get(VARIABLES["hash"]) or DEFAULT_HASH
    try:
        if "hash" in settings and not os.environ.get(VARIABLES["hash"]):
            spec = hash_setting(settings["hash"], tell=False)
        for name in split_names(spec):
            get_hash(name).code(torch.zeros(3, CANONICAL_SIZE, CANONICAL_SIZE))
    except Exception as error:  # of packages that fit each other badly, it may be any
        yield f"default hash {spec}: {' '.join(str(error).split())}"


def _folders() -> dict[str, Callable[[], Path | None]]:
    return {
        "cache": folders.cache_folder,
        "weights": folders.weights_folder,
        "profiles": folders.profiles_folder,
        "settings": lambda: None if (file := user_settings_file()) is None else file.parent,
    }


def _folder(name: str, find: Callable[[], Path | None]) -> Row:
    try:
        path = find()
    except RuntimeError:  # a user without a home directory
        path = None
    return {
        "folder": name,
        "path": None if path is None else str(path),
        "exists": path is not None and path.is_dir(),
        "writable": path is not None and can_write(path),
    }


def _setting(name: str, settings: dict[str, Setting]) -> Row:
    given = os.environ.get(VARIABLES[name])
    if given:
        return {"setting": name, "value": given, "from": f"${VARIABLES[name]}"}
    if name in settings:
        return {"setting": name, "value": settings[name].value, "from": str(settings[name].file)}
    return {"setting": name, "value": None, "from": "default"}


def _lines(found: Row) -> Iterator[str]:
    """The same for people."""
    machine = found["machine"]
    yield "Versions"
    yield from (_line(name, number or "not installed") for name, number in found["versions"].items())
    yield "Machine"
    yield _line("system", f"{machine['system']}, {machine['architecture']}")
    yield _line("cores", f"{machine['cores']}, threads in use: {machine.get('threads', 'unknown')}")
    yield _line("CUDA", machine.get("cuda") or "none that torch can use")
    yield "Engines"
    for row in found["engines"]:
        yield _line(row["engine"], f"{'ready' if row['available'] else 'missing'}: {row['detail']}")
    yield "Extras"
    for row in found["extras"]:
        yield _line(row["extra"], "installed" if row["installed"] else f"missing; run: {row['install']}")
    yield "Hashes"
    for row in found["hashes"]:
        yield _line(row["hash"], _hash_state(row))
    if any(row["state"] == "needs weights" for row in found["hashes"]):
        yield _line("", "where to get weights: dualshield weights list; then: dualshield weights import NAME FILE")
    yield "Folders"
    for row in found["folders"]:
        state = "can be written" if row["writable"] else "cannot be written"
        yield _line(
            row["folder"], "none: there is no home directory" if row["path"] is None else f"{row['path']}, {state}"
        )
    yield "Settings"
    for row in found["settings"]:
        usual = f"{DEFAULTS[row['setting']]}, by default"
        yield _line(row["setting"], usual if row["value"] is None else f"{row['value']}, from {row['from']}")
    if found["problems"]:
        yield "Problems"
        yield from (f"  {problem}" for problem in found["problems"])


def _hash_state(row: Row) -> str:
    """In one line; the JSON has the whole story, and so has the error when the hash is used."""
    imported = ", ".join(name for name, word in row["weights"].items() if word == "imported")
    if row["state"] == "ready":
        return f"ready, with the weights {imported}" if imported else "ready"
    names = re.findall(r"dualshield weights import (\S+) FILE", row["detail"])
    if row["state"] != "needs weights" or not names:
        return f"{row['state']}: {row['detail']}"
    return f"needs weights: {' or '.join(names)}"


def _line(label: str, text: object) -> str:
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))
    return f"  {label:<20} {shown}"
