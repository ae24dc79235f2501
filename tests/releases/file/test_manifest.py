"""The manifest: exact numbers, one spelling, and nothing unknown let in."""

import hashlib
import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import ReleaseFileError
from sfumato.releases.file.manifest import (
    Guarantee,
    Manifest,
    MechanismRecord,
    Member,
    Statistic,
    Total,
    manifest_bytes,
    parse_manifest,
)
from sfumato.releases.file.records import (
    LONG,
    GaussianRecord,
    LaplaceRecord,
    canonical,
    fraction_text,
    noise_record,
    parse_fraction,
    refusal,
)

MANIFEST = Manifest(
    kind="sparse-cube",
    schema={"dataset": "census", "privacy_unit": "row", "attributes": {"z": {"type": "boolean"}, "a": {"é": [1.5]}}},
    mechanism=MechanismRecord("cells", {"sparse": True, "rounds": 3, "note": "plain"}),
    guarantee=Guarantee(Fraction(1, 3), "any one row", "tables that differ by one row", "It would look much the same."),
    private=True,
    statistics=[
        Statistic("count", "cells", "count", LaplaceRecord(Fraction(3))),
        Statistic("charge", "cells", "charge", LaplaceRecord(Fraction(7, 2)), Fraction(1, 1024), Fraction(-5, 2)),
    ],
    receipt={"id": "abc", "epsilon": "1/3", "when": None},
    threshold=12,
    totals=[Total("count", -4, LaplaceRecord(Fraction(30)))],
    members={"cells": Member("cells.parquet", "0" * 64, 512, 2, ["cell", "count", "charge"])},
)
RAW, DIGEST = manifest_bytes(MANIFEST)


def spelled(change):
    """A manifest with one thing changed and its digest made to fit, as a forger would."""
    content = json.loads(RAW)
    del content["digest"]
    change(content)
    return canonical({**content, "digest": hashlib.sha256(canonical(content)).hexdigest()})


def refused(raw, words):
    with pytest.raises(ReleaseFileError, match=words) as caught:
        parse_manifest(raw)
    assert "\n" not in str(caught.value) and str(caught.value).isprintable()


def test_reads_back_what_it_wrote():
    assert parse_manifest(RAW) == (MANIFEST, DIGEST)


def test_spelling_is_canonical_and_keeps_the_order_of_attributes():
    text = RAW.decode("utf-8")
    content = json.loads(text)
    assert text.endswith("}\n") and "é" in text
    assert list(content) == sorted(content)
    assert list(content["guarantee"]) == sorted(content["guarantee"])
    assert list(content["schema"]["attributes"]) == ["z", "a"]
    assert content["guarantee"]["epsilon"] == "1/3" and content["statistics"][1]["centre"] == "-5/2"


def test_the_digest_covers_every_field():
    others = [
        replace(MANIFEST, private=False),
        replace(MANIFEST, threshold=13),
        replace(MANIFEST, receipt=None),
        replace(MANIFEST, schema=dict(reversed(MANIFEST.schema.items()))),
    ]
    assert len({DIGEST, *(manifest_bytes(other)[1] for other in others)}) == 5


@given(st.fractions())
def test_fractions_survive_as_text(value):
    assert parse_fraction(fraction_text(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "1/", "/2", "2/4", "3/1", "1/0", "1/00", "-0", "01", "1.5", "1e3", " 1", "1\n", "+1", "1/-2"),
        *("１", "1_0", "nan", "9" * 101, "1/" + "9" * 101),
    ],
)
def test_other_spellings_of_a_fraction_are_refused(text):
    with pytest.raises(ReleaseFileError, match="lowest terms"):
        parse_fraction(text)


def test_numbers_with_too_many_digits_are_not_written():
    for number in (Fraction(10**100), Fraction(1, 10**100)):
        with pytest.raises(ReleaseFileError, match="100 digits"):
            fraction_text(number)
    assert parse_fraction(fraction_text(Fraction(10**100 - 1))) == 10**100 - 1


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(extra=1),
        lambda c: c.pop("kind"),
        lambda c: c.update(kind="two\nlines"),
        lambda c: c.update(private="yes"),
        lambda c: c.update(private=1),
        lambda c: c.update(limits="https://elsewhere.example"),
        lambda c: c.update(threshold=1.0),
        lambda c: c.update(threshold=2**63),
        lambda c: c.update(statistics=[]),
        lambda c: c.update(schema=[]),
        lambda c: c["guarantee"].update(epsilon=0.5),
        lambda c: c["guarantee"].update(epsilon="0"),
        lambda c: c["guarantee"].update(epsilon="-1"),
        lambda c: c["guarantee"].update(epsilon="2/4"),
        lambda c: c["guarantee"].update(delta="1/10"),
        lambda c: c["guarantee"].update(definition="none"),
        lambda c: c["guarantee"].update(statement="\x1b[2J"),
        lambda c: c["guarantee"].update(statement="one\n"),
        lambda c: c["guarantee"].update(unit=""),
        lambda c: c["mechanism"]["options"].update(deep={"a": 1}),
        lambda c: c["mechanism"]["options"].update(real=1.5),
        lambda c: c["statistics"][0]["noise"].update(family="none"),
        lambda c: c["statistics"][0]["noise"].update(scale="0"),
        lambda c: c["statistics"][0].update(member="../cells"),
        lambda c: c["statistics"][0].update({"new\nline \x1b[31m": 1}),
        lambda c: c["members"]["cells"].update(rows=-1),
        lambda c: c["members"]["cells"].update(rows=True),
        lambda c: c["members"]["cells"].update(sha256="0" * 63 + "G"),
        lambda c: c["members"]["cells"].update(sha256="0" * 64 + "\n"),
        lambda c: c["members"]["cells"].update(columns=[]),
        lambda c: c["members"].update({"Cells": c["members"]["cells"]}),
        lambda c: c["members"].update({"cells\n": c["members"]["cells"]}),
        lambda c: c["totals"][0].update(value="4"),
    ],
)
def test_fields_that_are_unknown_missing_or_of_the_wrong_type_are_refused(change):
    refused(spelled(change), "not well formed at")


def test_a_forger_who_changes_nothing_is_let_in():
    assert spelled(lambda content: None) == RAW  # so that the refusals above are for the change itself


def test_a_newer_format_says_to_upgrade():
    refused(spelled(lambda c: c.update(version=6, kind="model")), r"newer Sfumato \(format 6\); upgrade")


def test_what_the_first_format_wrote_is_still_read():
    """It knew no fits, no arrays and no rho; a manifest without them is taken as one that has none."""

    def as_before(content):
        for key in ("fits", "queries", "arrays"):
            del content[key]
        del content["guarantee"]["rho"]
        content["version"] = 1

    assert parse_manifest(spelled(as_before))[0] == replace(MANIFEST, version=1)


@pytest.mark.parametrize(
    "change",
    [
        {"delta": "1/1000000"},
        {"rho": "1/50"},
        {"definition": "(epsilon, delta)-differential privacy, from rho-zCDP"},
        {"definition": "(epsilon, delta)-differential privacy, from rho-zCDP", "delta": "1/1000000"},
        {"definition": "(epsilon, delta)-differential privacy, from rho-zCDP", "rho": "1/50"},
        {"definition": "(epsilon, delta)-differential privacy, from rho-zCDP", "rho": "1/50", "delta": "1"},
        {"definition": "(epsilon, delta)-differential privacy, from rho-zCDP", "rho": "1/50", "delta": "-1/2"},
    ],
)
def test_a_guarantee_is_pure_or_has_both_delta_and_rho(change):
    refused(spelled(lambda c: c["guarantee"].update(change)), "not well formed at")


@pytest.mark.parametrize("version", [0, -1, 1.0, True, "1", None])
def test_versions_that_are_none_are_refused(version):
    refused(spelled(lambda c: c.update(version=version)), "version of its format")


def test_a_change_without_a_new_digest_is_noticed():
    refused(RAW.replace(b'"private": true', b'"private": false'), "changed after publication")
    refused(RAW.replace(DIGEST.encode(), b"0" * 64), "changed after publication")
    refused(RAW.replace(b'"' + DIGEST.encode() + b'"', b"null"), "changed after publication")


def test_the_same_content_in_another_spelling_is_refused():
    for other in (RAW + b"\n", RAW.replace(b"  ", b" ", 1), RAW.replace("é".encode(), b"\\u00e9"), RAW[:-1]):
        assert json.loads(other) == json.loads(RAW)
        refused(other, "changed after publication")


def test_very_long_lists_may_stand_as_early_files_have_them():
    content = json.loads(RAW)
    del content["digest"]
    content["schema"]["attributes"]["a"]["values"] = values = list(range(LONG + 1))

    def signed(*, digest_at_once, at_once):
        digest = hashlib.sha256(canonical(content, at_once=digest_at_once)).hexdigest()
        return canonical({**content, "digest": digest}, at_once=at_once)

    for at_once in (True, False):
        manifest, _ = parse_manifest(signed(digest_at_once=at_once, at_once=at_once))
        assert manifest.schema["attributes"]["a"]["values"] == values
        refused(signed(digest_at_once=at_once, at_once=not at_once), "changed after publication")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"[]", "does not say"),
        (b"null", "does not say"),
        (b'{"format": "other"}', "does not say"),
        (b'{"a": 1, "a": 2}', "key twice"),
        (b'{"a": {"b": 1, "b": 1}}', "key twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 101 + b"}", "100 digits"),
        (b'{"a": ' + b"9" * 500_000 + b"}", "100 digits"),
        (b'{"format": "sfumato", "version": 1, "a": "\\ud800"}', "broken text"),
        (b"[" * 500_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"[" * 22 + b"]" * 22, "nested too deeply"),
        (b" " * (2**24 + 1), "larger than 16,777,216 bytes"),
    ],
)
def test_json_that_is_not_strict_is_refused(raw, words):
    refused(raw, words)


def test_what_could_not_be_read_back_is_not_written():
    for schema in ({"n": 10**100}, {"n": float("nan")}, {"t": "\ud800"}, {"v": ["x" * 2**24]}, nested(25)):
        with pytest.raises(ReleaseFileError):
            manifest_bytes(replace(MANIFEST, schema=schema))


def nested(depth):
    content = {}
    for _ in range(depth):
        content = {"a": content}
    return content


def test_a_refusal_is_one_short_printable_line():
    message = str(refusal("bad\r\n\x1b[2J" + "x" * 1000))
    assert message.isprintable() and len(message) < 400 and message.endswith("ask the publisher for a fresh copy")


def test_noise_becomes_a_law_again():
    for record in (LaplaceRecord(Fraction(7, 2)), GaussianRecord(Fraction(9, 4))):
        assert noise_record(record.noise) == record
