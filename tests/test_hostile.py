"""Every kind of hostile input is answered cleanly; see tools/hostile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.hostile.check import examine
from tools.hostile.groups import all_kinds
from tools.hostile.kind import Kind


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.label) for kind in all_kinds()])
def test_an_answer_is_clean(kind: Kind, tmp_path: Path) -> None:
    assert examine(kind, tmp_path) == []


def test_there_are_many_kinds_with_different_names() -> None:
    labels = [kind.label for kind in all_kinds()]
    assert len(labels) >= 400
    assert len(set(labels)) == len(labels)
