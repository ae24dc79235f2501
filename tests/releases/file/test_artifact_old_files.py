"""Files of every family, written before their code was moved about, open and answer the same to the last digit.

Ends of intervals alone may move by a thousandth of their distance from the value, to which ends of ratios are found,
and where the guaranteed interval is the narrower one it stands in the place of the typical one that was kept.

They were made with a testing generator from 400 made-up rows, and are kept as they are: never make them anew. In
one_of_each there is a file of every version and kind that was ever published, written by the code of its time: the
promise of GOVERNANCE.md. Whoever adds a version or a kind adds its file.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import sfumato as sf
from sfumato.answers.results import Result
from sfumato.releases.contents.content import KINDS
from sfumato.releases.file.linked import LinkedHead
from sfumato.releases.file.manifest import Manifest
from sfumato.releases.file.series import Head
from sfumato.releases.release import Release

FOLDER = Path(__file__).parent / "old_files"
KEPT = json.loads((FOLDER / "answers.json").read_text())
EACH = FOLDER / "one_of_each"
ASKED = json.loads((EACH / "answers.json").read_text())


@pytest.mark.parametrize("name", sorted(KEPT["answers"]))
def test_an_old_file_answers_as_it_always_did(name):
    release = sf.open(FOLDER / name, allow_not_private=True)
    for sql, wanted in zip(KEPT["queries"], KEPT["answers"][name], strict=True):
        found = _records(release.query(sql))
        assert _close(found, wanted) or _close(found, _cut(wanted, release, sql)), (sql, found, wanted)


def _records(result: Result) -> list[dict[str, Any]]:
    return json.loads(json.dumps(result.records(), default=str))


def _cut(wanted: list[dict[str, Any]], release: Release, sql: str) -> list[dict[str, Any]]:
    """The records that were kept, with the guaranteed interval and its error wherever it is possibly narrower."""
    sure = _records(release.query(sql, interval="guaranteed"))
    possible = _records(release.query(sql, possible=True))
    assert len(sure) == len(possible) == len(wanted)
    cut = []
    for record, other, within in zip(wanted, sure, possible, strict=True):
        ends = {}
        for name in (key.removesuffix("_stderr") for key in record if key.endswith("_stderr")):
            low, high = f"{name}_low", f"{name}_high"
            floor = max(record[low], 0.0) if within[low] >= 0.0 else record[low]
            if other[high] - other[low] < record[high] - floor:
                ends |= {key: other[key] for key in (f"{name}_stderr", low, high)}
        cut.append(record | ends)
    return cut


def test_there_is_a_file_for_every_answer():
    assert {path.name for path in FOLDER.glob("*.sfumato")} == set(KEPT["answers"])
    assert len(KEPT["answers"]) >= 17


def _near(key: str, found: dict[str, float], wanted: dict[str, float]) -> bool:
    """Whether an end of an interval is where it was, up to a thousandth of its distance from the value."""
    name, _, end = key.rpartition("_")
    return end in ("low", "high") and abs(found[key] - wanted[key]) <= 1e-6 + 1e-3 * abs(wanted[key] - wanted[name])


def _close(found: object, wanted: object, digits: float = 1e-12) -> bool:
    """Equal but for the last digits, which the order of floating-point sums decides on other processors."""
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(_close, found, wanted))
    if isinstance(wanted, dict) and isinstance(found, dict):
        return list(found) == list(wanted) and all(
            _close(found[key], wanted[key]) or _near(key, found, wanted) for key in wanted
        )
    if isinstance(wanted, int | float) and isinstance(found, int | float):  # a whole number is written without a point
        return found == pytest.approx(wanted, rel=digits, abs=digits, nan_ok=True)
    return found == wanted


@pytest.mark.parametrize("path", sorted(EACH.glob("*.sfumato")), ids=lambda path: path.stem)
def test_a_file_of_every_version_and_kind_opens_and_answers(path):
    signed = path.with_name(f"{path.name}.sig").exists()
    release = sf.open(path, allow_not_private=True, require_signature=EACH / "key.pub" if signed else None)
    if path.stem == "3-rule":  # which is asked by no SQL
        assert release.describe().findings
        return
    sql, rows, last = ASKED[path.name]
    found = release.query(sql).rows
    assert len(found) == rows and found[0][-1].value == pytest.approx(last, rel=1e-9)


def test_there_is_one_of_every_version_and_kind():
    found, whole = set(), {"series": set(), "linked": set()}
    for path in EACH.glob("*.sfumato"):
        version, _, kind = path.stem.partition("-")
        if kind in whole:
            whole[kind].add(int(version))
            continue
        manifest = json.loads(zipfile.ZipFile(path).read("manifest.json"))
        assert (manifest["version"], manifest["kind"]) == (int(version), kind)
        found.add((manifest["version"], manifest["kind"]))
    assert {kind for _, kind in found} == set(KINDS)
    assert {version for version, _ in found} == _versions(Manifest)
    assert whole == {"series": _versions(Head), "linked": _versions(LinkedHead)}


def _versions(record: type) -> set[int]:
    return set(get_args(get_type_hints(record)["version"]))
