"""A certificate says what the file says: amounts, unit, hashes, receipt; and it is valid where it is to be read."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.releases.signature import make_keys, sign_release, signature_beside

EVIL = '</script>"><img onerror=x>\u202e'


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    schema = {
        "dataset": "visits",
        "privacy_unit": {"column": "person", "contributions": 2},
        "budget": {"epsilon": 9, "delta": 0.001},
        "attributes": {"a": {"type": "category", "values": ["x", EVIL]}, "b": {"type": "boolean"}},
    }
    rows = pa.table({"person": list(range(60)), "a": ["x", "y"] * 30, "b": [True, False] * 30})
    for name, delta in (("pure", None), ("gauss", "1e-6")):
        mechanism = "cells" if delta is None else "hierarchical"
        made = sf.release(
            rows, sf.Schema.from_dict(schema), "1/2", delta=delta, mechanism=mechanism, ledger=folder / "ledger"
        )
        made.save(folder / f"{name}.sfumato")
    return folder


def test_it_says_what_the_file_says(released):
    path = released / "pure.sfumato"
    found = sf.certificate(path).to_dict()
    json.dumps(found, allow_nan=False)
    promise = found["guarantee"]
    assert (promise["epsilon"], promise["delta"], promise["rho"]) == ("0.5", "0", None)
    assert (promise["unit_column"], promise["contributions"], promise["private"]) == ("person", 2, True)
    assert [one["together"] for one in promise["groups"]] == [1, 2, 3, 4]
    assert found["mechanism"]["name"] == "cells" and found["mechanism"]["noise"] == ["discrete Laplace"]
    assert found["budget"]["total_epsilon"] == "9" and found["budget"]["receipt"]["entry"] == 1
    whole = path.read_bytes()
    assert found["hashes"]["file"] == {
        "name": "pure.sfumato",
        "sha256": hashlib.sha256(whole).hexdigest(),
        "bytes": len(whole),
    }
    assert found["hashes"]["members"]["cells.parquet"]["sha256"] in whole.decode("latin-1")
    assert found["hashes"]["digest"].encode() in whole
    assert found["signature"] is None and found["software"]["written_by"] == f"sfumato {sf.__version__}"


def test_noise_that_needs_a_delta_is_told_as_such(released):
    found = sf.certificate(released / "gauss.sfumato").to_dict()
    loss = found["registry"]["deployment"]["privacy_loss"]
    assert found["mechanism"]["noise"] == ["discrete Gaussian"]
    assert found["registry"]["deployment"]["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    parameters = loss["privacy_parameters"]
    assert parameters["delta"] == 1e-6 and parameters["rho"] > 0 and parameters["epsilon"] == 0.5


def test_a_signature_is_told_and_only_checked_where_a_key_is_named(released, tmp_path):
    make_keys(tmp_path / "k")
    path = tmp_path / "r.sfumato"
    path.write_bytes((released / "pure.sfumato").read_bytes())
    signature_beside(path).write_text(sign_release(path, tmp_path / "k").text)
    told, checked = sf.certificate(path), sf.certificate(path, require_signature=tmp_path / "k.pub")
    assert not told.to_dict()["signature"]["verified"] and "not checked" in repr(told)
    assert checked.to_dict()["signature"]["verified"] and "checked" in repr(checked)


def test_what_only_the_curator_knows_is_listed_until_it_is_said(released):
    facts = {"curator": "Office", "curator_type": "Government", "intended_use": "to show", "region": "here"}
    facts |= {"sector": "Government", "published": "2026-01-31", "author": "A. Curator"}
    path = released / "pure.sfumato"
    unsaid, said = sf.certificate(path), sf.certificate(path, facts=facts)
    assert len(unsaid.to_dict()["missing"]) == 6 and said.to_dict()["missing"] == []
    assert unsaid.registry()["url_slug"] == "visits" and said.registry()["url_slug"] == "visits-office-2026"
    basic = said.registry()["deployment"]["basic"]
    assert basic["data_curators"] == ["Office"] and basic["publication_date"] == "2026-01-31"
    mistaken = ({"epsilon": "0.1"}, {"published": "31.1.2026"}, {"published": "2026-02-30"}, {"sector": "Nothing"})
    for wrong in (*mistaken, {"curator_type": "Nobody"}, {"url": "javascript:x"}):
        with pytest.raises(QueryError):
            sf.certificate(path, facts=wrong)


def test_nothing_in_text_or_records_steers_a_reader(released):
    found = sf.certificate(released / "pure.sfumato")
    for text in (repr(found), json.dumps(found.croissant()), json.dumps(found.registry())):
        assert "\u202e" not in text and r"\u202e" not in text.replace(r"\\u202e", "")


def test_starting_python_loads_no_certificates():
    code = (
        "import sys, sfumato.cli; sfumato.cli.application(); "
        "assert not [m for m in sys.modules if 'cryptography' in m or 'certificates' in m]"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
