"""A signature binds every byte: whatever is changed in the file or beside it, a required signature refuses it."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ReleaseFileError, SignatureError
from sfumato.releases.file.artifact import read_artifact, write_artifact
from sfumato.releases.file.manifest import guarantee_of
from sfumato.releases.signature import Signature, make_keys, read_private, sign_digest, sign_release, signature_beside

SCHEMA = {
    "dataset": "t",
    "privacy_unit": "row",
    "budget": {"epsilon": 9},
    "attributes": {
        "a": {"type": "category", "values": ["x", "y"]},
        "b": {"type": "integer", "lower": 0, "upper": 4},
        "c": {"type": "boolean"},
    },
}


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A release of several members, signed; and another key."""
    folder = tmp_path_factory.mktemp("signed")
    rows = pa.table({"a": ["x", "y", "x"] * 40, "b": [1, 2, 3] * 40, "c": [True, False, True] * 40})
    schema = sf.Schema.from_dict(SCHEMA)
    made = sf.release(rows, schema, epsilon=1, mechanism="margins", ledger=folder / "ledger")
    made.save(folder / "r.sfumato")
    for name in ("k", "other"):
        make_keys(folder / name)
    signature_beside(folder / "r.sfumato").write_text(sign_release(folder / "r.sfumato", folder / "k").text)
    return folder


@pytest.fixture
def here(signed, tmp_path):
    for one in signed.iterdir():
        (tmp_path / one.name).write_bytes(one.read_bytes())
    (tmp_path / "k").chmod(0o600)
    (tmp_path / "other").chmod(0o600)
    return tmp_path


def opened(folder, key: str = "k.pub") -> sf.Release:
    return sf.open(folder / "r.sfumato", require_signature=folder / key)


def test_a_signed_release_opens_and_answers_and_its_bytes_are_as_before(signed, here):
    assert opened(here).query("SELECT COUNT(*) AS n FROM t").columns == ("n",)
    assert (here / "r.sfumato").read_bytes() == (signed / "r.sfumato").read_bytes()
    with sf.connect(here / "r.sfumato", require_signature=here / "k.pub") as connection:
        assert not connection.closed


def test_every_changed_byte_is_refused(here):
    """Some two hundred places all over the file, of which many lie in headers, names and checksums."""
    path = here / "r.sfumato"
    whole = path.read_bytes()
    places = {*range(0, len(whole), max(1, len(whole) // 100)), *range(60), *range(len(whole) - 60, len(whole))}
    for place in sorted(places):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ReleaseFileError):
            opened(here)
    for other in (whole + b"\0", whole[:-1], b"\0" + whole):
        path.write_bytes(other)
        with pytest.raises(ReleaseFileError):
            opened(here)


def test_a_forger_who_mends_all_hashes_is_refused_whichever_member_was_changed(here):
    path = here / "r.sfumato"
    artifact = read_artifact(path)
    members = {name: artifact.read(name) for name in artifact.manifest.members}
    assert len(members) > 3
    forged = 0
    for name, columns in members.items():
        for column, values in columns.items():
            for place in {0, len(values) - 1} if len(values) else ():
                changed = values.copy()
                changed[place] += 1
                try:
                    write_artifact(path, artifact.manifest, {**members, name: {**columns, column: changed}})
                    read_artifact(path)
                except ReleaseFileError:  # parts that no longer go together are refused without a signature too
                    continue
                forged += 1
                with pytest.raises(SignatureError, match="changed or replaced"):
                    opened(here)
    assert forged > 3
    promise = guarantee_of(Fraction(1, 100), artifact.manifest.guarantee.unit)
    write_artifact(path, replace(artifact.manifest, guarantee=promise, receipt=None), members)
    with pytest.raises(SignatureError, match="changed or replaced"):
        opened(here)
    write_artifact(path, artifact.manifest, members)  # and what is written as it was is what was signed
    assert opened(here).guarantee.epsilon == 1


def test_a_signature_that_is_missing_wrong_or_of_another_is_refused(here):
    beside, path = here / "r.sfumato.sig", here / "r.sfumato"
    good = beside.read_text()
    digest = json.loads(good)["digest"]
    with pytest.raises(SignatureError, match="another key"):
        opened(here, "other.pub")
    beside.unlink()
    with pytest.raises(SignatureError, match="not signed"):
        opened(here)
    mine, theirs = (sign_digest(digest, read_private(here / name)) for name in ("k", "other"))
    cases = [
        (replace(mine, signature=theirs.signature).text, "forged"),
        (replace(mine, digest="0" * 64).text, "another release"),
        *(
            (good.replace(*other), "not a signature")
            for other in (("n: 1", "n: 2"), ("Ed", "ed"), ('on": 1', 'on": 2'))
        ),
        *((text, "not a signature") for text in ("", "{}", "[]", good + " ", "[" * 4000, good * 40)),
    ]
    for text, words in cases[:2] + [case for case in cases[2:] if case[0] != good]:
        beside.write_text(text)
        with pytest.raises(SignatureError, match=words) as refused:
            opened(here)
        assert "\n" not in str(refused.value)
    beside.write_text(mine.text)
    assert opened(here).private and mine.text == good  # Ed25519 signs the same in the same way
    assert sf.open(path).private  # and who requires none is asked for none


def test_a_signature_of_something_else_by_the_same_key_is_none_of_a_release(here):
    from base64 import b64encode

    key = read_private(here / "k")
    digest = json.loads((here / "r.sfumato.sig").read_text())["digest"]
    plain = b64encode(key.sign(bytes.fromhex(digest))).decode()
    public = b64encode(key.public_key().public_bytes_raw()).decode()
    (here / "r.sfumato.sig").write_text(Signature(digest, public, plain).text)
    with pytest.raises(SignatureError, match="forged"):
        opened(here)
