"""Safe reading of hash cards; errors name the file and the field."""

from __future__ import annotations

import hashlib
import math
import reprlib
from pathlib import Path
from typing import Any

import yaml

from dualshield.errors import CardError

MAX_CARD_BYTES = 1 << 16
MAX_CARD_DEPTH = 8
MAX_SIDE = 2048


class Card:
    """A YAML mapping with checked access to its fields; errors name the file and the field."""

    def __init__(self, file: Path, data: Any, known: set[str], where: str = "") -> None:
        self.file, self.where = file, where
        if not isinstance(data, dict):
            what = where or "the card: "
            raise card_error(file, f"{what}expected a mapping of {', '.join(sorted(known))}, got {shown(data)}")
        unknown = [key for key in data if key not in known]
        if unknown:
            name = unknown[0] if isinstance(unknown[0], str) else shown(unknown[0])
            raise self.wrong(name, f"unknown field; use one of {', '.join(sorted(known))}")
        self.data: dict[str, Any] = data

    def wrong(self, field: str, why: str) -> CardError:
        """Return the error for one field."""
        return card_error(self.file, f"{self.where}{field}: {why}")

    def text(self, field: str, default: str | None = None) -> str:
        """Return a field that must be a non-empty string."""
        value = self.data.get(field, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(field, f"expected text, got {shown(value)}")
        return value

    def whole(self, field: str, most: int) -> int:
        """Return a field that must be an integer from 1 to ``most``."""
        value = self.data.get(field)
        if type(value) is not int or not 1 <= value <= most:
            raise self.wrong(field, f"expected a whole number from 1 to {most}, got {shown(value)}")
        return value

    def numbers(self, field: str, default: list[float]) -> list[float]:
        """Return a field that must be one number, or a list as long as ``default``."""
        value = self.data.get(field, default)
        values = value if isinstance(value, list) else [value] * len(default)
        if len(values) != len(default) or not all(is_finite(v) for v in values):
            wanted = "a finite number" if len(default) == 1 else f"{len(default)} finite numbers"
            raise self.wrong(field, f"expected {wanted}, got {shown(value)}")
        return [float(v) for v in values]

    def size(self, field: str) -> tuple[int, int]:
        """Return a field that gives height and width."""
        value = self.data.get(field)
        pair: list[Any] = value if isinstance(value, list) else [value, value]
        if len(pair) != 2 or not all(type(v) is int and 1 <= v <= MAX_SIDE for v in pair):
            raise self.wrong(field, f"expected [height, width] from 1 to {MAX_SIDE}, got {shown(value)}")
        return pair[0], pair[1]

    def path(self, field: str) -> Path:
        """Return the path of the file that ``field`` names, relative to the card."""
        return self.beside(self.text(field), field)

    def beside(self, name: str, field: str) -> Path:
        """Return the path of the file ``name``, relative to the card."""
        path = self.file.parent / name
        try:
            found = path.is_file()
            folder = path.is_dir()
        except OSError as error:
            raise self.wrong(field, f"cannot read {path.name[:80]} ({error.strerror}); correct the path") from error
        if not found:
            raise self.wrong(field, f"{'not a file' if folder else 'no such file'}: {path}; correct the path")
        return path

    def digest(self, field: str) -> str:
        """Return the sha256 of the file that ``field`` names."""
        return self.digest_of(self.path(field), field)

    def digest_of(self, path: Path, field: str) -> str:
        """Return the sha256 of ``path``; errors name ``field``."""
        try:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise self.wrong(field, f"cannot read {path} ({error.strerror}); check its permissions") from error


def card_error(file: Path, why: str) -> CardError:
    """Return an error of one line; control characters from the card are replaced."""
    return CardError("".join(c if c.isprintable() else "?" for c in f"{file}: {why}"))


def shown(value: Any) -> str:
    """Return a value for an error message, shortened."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother = 2, 80, 80
    try:
        return "nothing" if value is None else short.repr(value)
    except ValueError:  # an integer with more digits than Python converts to text
        return "a huge number"


def reason(error: Exception) -> str:
    """Return the message of an exception on one line, shortened."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def is_finite(value: Any) -> bool:
    """Return whether a YAML value is a finite number (not a bool)."""
    try:
        return type(value) in (int, float) and math.isfinite(float(value))
    except OverflowError:
        return False


def read_yaml(file: Path) -> Any:
    """Return the parsed YAML of a card; its fields are not checked yet."""
    try:
        if not file.is_file():
            raise card_error(file, f"{'not a file' if file.is_dir() else 'no such file'}; give the path of a hash card")
        if file.stat().st_size > MAX_CARD_BYTES:
            raise card_error(file, f"larger than {MAX_CARD_BYTES} bytes; give the path of a hash card")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise card_error(file, f"cannot read the hash card ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise card_error(file, "not a YAML hash card (it is not text in UTF-8); give the path of one") from error
    try:
        _refuse_bombs(file, text)
        return yaml.safe_load(text)
    except CardError:
        raise
    except Exception as error:  # PyYAML also lets errors of date, int and others through
        raise card_error(file, f"not a YAML hash card ({reason(error)}); correct it") from error


def _refuse_bombs(file: Path, text: str) -> None:
    """Refuse deep nesting, which exhausts the stack, and aliases, which expand a few lines to gigabytes."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_CARD_DEPTH or isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1
            raise card_error(file, f"line {line}: a hash card has no aliases and no deep nesting; write the value out")
