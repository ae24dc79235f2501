"""A series file: parts are chained, and whatever is swapped, dropped, replaced or there twice is refused."""

from __future__ import annotations

import zlib
from dataclasses import replace
from fractions import Fraction

import pytest
from months import MONTHS, months_of, part_of, schema_of

from sfumato.errors import ReleaseFileError, SchemaError, SignatureError
from sfumato.kernel.budget import rho_for
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.public.certificate.record import certificate
from sfumato.publishing.publish import add_part
from sfumato.releases.file.artifact import HEAD_FILE, Entry, directory_of, is_series
from sfumato.releases.file.series import PartRecord, append_part, check_growth, head_bytes, open_series
from sfumato.releases.release import Release, open_release
from sfumato.releases.series import extracted, guarantee_of_parts
from sfumato.releases.signature import checked_series, make_keys, sign_release, signature_beside

ASKED = "SELECT period, COUNT(*) AS n FROM visits GROUP BY period"


@pytest.fixture
def made(tmp_path):
    """A series of three months, and the file of each part."""
    path, parts = tmp_path / "visits.sfumato", []
    for month, one in zip(MONTHS, months_of("cells"), strict=True):
        part = replace(one, published=None).save(tmp_path / f"{month}.part")
        append_part(path, part, month)
        parts.append(part)
    return path, parts


def written(path, bodies, head=None):
    """Write a series file of given parts in the right layout, whatever they are."""
    opened = open_series(path)
    raw = head_bytes(head or opened.head)[0]
    entries, whole = [], b""
    for name, body in [(HEAD_FILE, raw), *((f"part_{at:04}.sfumato", each) for at, each in enumerate(bodies, 1))]:
        entries.append(Entry(name, zlib.crc32(body), len(body), entries[-1].end if entries else 0))
        whole += entries[-1].local + body
    out = path.with_name("made.sfumato")
    out.write_bytes(whole + directory_of(entries))
    return out


def test_it_is_opened_as_a_release_and_its_parts_are_releases(made):
    path, parts = made
    assert is_series(path) and not any(map(is_series, parts))
    whole = open_release(path, allow_not_private=True)
    for row, part in zip(whole.query(ASKED).rows, parts, strict=True):
        alone = open_release(part, allow_not_private=True).query("SELECT COUNT(*) AS n FROM visits").rows[0][0]
        assert row[1] == alone
    assert [extracted(path, month)[0] for month in MONTHS] == [part.read_bytes() for part in parts]
    copy = whole.save(path.with_name("copy.sfumato"))
    assert copy.read_bytes() == path.read_bytes()
    assert path.stat().st_size < sum(part.stat().st_size for part in parts) + 4000


def test_appending_keeps_every_earlier_byte_of_the_chain(made):
    path, parts = made
    before = open_series(path).head
    append_part(path, replace(months_of("cells")[0], receipt=None, published=None).save(parts[0]), "2026-05")
    after = open_series(path).head
    assert after.parts[:3] == before.parts


@pytest.mark.parametrize(
    "change",
    [
        lambda parts: [parts[1], parts[0], parts[2]],
        lambda parts: [parts[0], parts[0], parts[2]],
        lambda parts: [parts[0], parts[1] + b" ", parts[2]],
        lambda parts: parts[:2],
        lambda parts: [*parts, parts[0]],
        lambda parts: [parts[0], bytes(len(parts[1])), parts[2]],
    ],
)
def test_parts_that_are_not_those_of_the_chain_are_refused(made, change):
    path, parts = made
    out = written(path, change([part.read_bytes() for part in parts]))
    with pytest.raises(ReleaseFileError):
        open_release(out, allow_not_private=True).query(ASKED)
    with pytest.raises(ReleaseFileError):
        checked_series(out)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda parts: [parts[1], parts[0], parts[2]], "dropped or moved"),
        (lambda parts: [replace(parts[1], number=1), replace(parts[2], number=2)], "chain breaks"),
        (lambda parts: [parts[0], replace(parts[1], period="2026-07"), parts[2]], "chain breaks"),
        (lambda parts: [parts[0], replace(parts[1], sha256="0" * 64), parts[2]], "chain breaks"),
        (lambda parts: parts[1:], "dropped or moved"),
        (lambda parts: _chained([parts[0], replace(parts[1], period="2026-01"), parts[2]]), "two parts of 2026-01"),
        (lambda parts: _chained([parts[0], replace(parts[1], sha256=parts[0].sha256), parts[2]]), "there twice"),
        (lambda parts: _chained([parts[0], replace(parts[1], period="2026-2"), parts[2]]), "names a period otherwise"),
        (lambda parts: _chained([parts[0], replace(parts[1], corrects=1), parts[2]]), "second does not say"),
        (
            lambda parts: _chained([parts[0], replace(parts[1], epsilon=parts[1].epsilon / 2), parts[2]]),
            "not what the head",
        ),
        (lambda parts: _chained([parts[0], replace(parts[1], mechanism="margins"), parts[2]]), "not what the head"),
    ],
)
def test_a_head_that_says_otherwise_is_refused(made, change, says):
    path, parts = made
    head = open_series(path).head
    out = written(path, [part.read_bytes() for part in parts], replace(head, parts=change(head.parts)))
    with pytest.raises(ReleaseFileError, match=says):
        checked_series(out)


def _chained(parts):
    """Entries with a chain that is right, as a forger would make it."""
    before, made = "", []
    for part in parts:
        made.append(part.chained(before))
        before = made[-1].chain
    return made


def test_every_byte_counts(made):
    """Flip single bytes all over the file: each is found when the file is opened or all of it is checked."""
    path, _ = made
    raw = bytearray(path.read_bytes())
    broken = path.with_name("broken.sfumato")
    for place in range(0, len(raw), 211):
        raw[place] ^= 1
        broken.write_bytes(raw)
        with pytest.raises(ReleaseFileError):
            checked_series(broken)
        raw[place] ^= 1
    for cut in (0, 1, 30, 100, len(raw) // 2, len(raw) - 1):
        broken.write_bytes(raw[:cut])
        with pytest.raises(ReleaseFileError):
            checked_series(broken)
    broken.write_bytes(bytes(raw) + b"PK")
    with pytest.raises(ReleaseFileError):
        checked_series(broken)


def test_a_period_is_published_once_unless_it_is_corrected(made):
    path, parts = made
    again = replace(months_of("cells")[0], receipt=None, published=None).save(path.with_name("again.part"))
    with pytest.raises(ReleaseFileError, match="say --correct"):
        append_part(path, again, "2026-2")
    with pytest.raises(ReleaseFileError, match="no part of 2026-03 to correct"):
        append_part(path, again, "2026-03", correct=True)
    append_part(path, again, "2026-02", correct=True)
    assert [part.corrects for part in open_series(path).head.parts] == [None, None, None, 2]
    assert extracted(path, "2026-02")[0] == again.read_bytes()
    assert extracted(path, "2026-02", 2)[0] == parts[1].read_bytes()
    january, february, _ = open_release(path, allow_not_private=True).query(ASKED).rows
    assert january[1].value == february[1].value
    whole = open_release(path, allow_not_private=True)
    assert whole.guarantee.epsilon == 2  # February was published twice, and no unit is in two months


def test_a_group_is_promised_what_one_period_costs():
    """Nobody is in two months, so a family bears the four- and sixteenfold rho of one month, not of all of them."""
    schema = schema_of()
    rho = rho_for(Fraction(1), Fraction(1, 10**7))
    parts = [
        PartRecord(number, f"2026-0{number}", "0" * 64, 9, Fraction(1), "cells", True, Fraction(1, 10**7), rho)
        for number in (1, 2, 3)
    ]
    promised = guarantee_of_parts(parts, schema.series, schema)
    assert (promised.epsilon, promised.rho) == (1, rho)


def test_a_failure_leaves_the_series_as_it_was(made, monkeypatch):
    path, _ = made
    before = path.read_bytes()
    part = replace(months_of("cells")[0], receipt=None, published=None).save(path.with_name("more.part"))
    monkeypatch.setattr("sfumato.releases.file.series.directory_of", lambda entries: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        append_part(path, part, "2026-05")
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.glob(".*partial")] == []


def test_the_file_may_be_replaced_while_it_is_open(made):
    path, _ = made
    opened = Release.load(path)
    part = replace(months_of("cells")[0], receipt=None, published=None).save(path.with_name("more.part"))
    append_part(path, part, "2026-05")
    assert len(opened.query(ASKED).rows) == 3
    assert len(Release.load(path).query(ASKED).rows) == 4


def test_a_signature_is_about_all_parts(made, tmp_path):
    path, _ = made
    public, _ = make_keys(tmp_path / "office.key")
    signature_beside(path).write_text(sign_release(path, tmp_path / "office.key").text)
    assert open_release(path, allow_not_private=True, require_signature=public).query(ASKED).rows
    part = replace(months_of("cells")[0], receipt=None, published=None).save(path.with_name("more.part"))
    append_part(path, part, "2026-05")
    with pytest.raises(SignatureError):
        open_release(path, allow_not_private=True, require_signature=public)


def test_another_dataset_or_promise_is_refused(made):
    path, _ = made
    for change in ({"dataset": "others"}, {"series": {"period": "month", "unit": "person for ever", "periods": 12}}):
        other = part_of(
            "2026-05", "cells", schema_of(**change), seed=len(change["series"]) if "series" in change else 9
        )
        part = replace(other, published=None).save(path.with_name("o.part"))
        with pytest.raises(ReleaseFileError, match="another dataset or series"):
            append_part(path, part, "2026-05")


@pytest.mark.parametrize(
    ("name", "attribute", "says"),
    [
        ("age", {"type": "integer", "lower": 0, "upper": 99, "width": 10}, "age has other cells"),
        ("ward", {"type": "category", "values": ["surgery", "children"]}, "it lost 'heart'"),
        ("stay", None, "stay was a column"),
    ],
)
def test_what_was_there_stays(name, attribute, says):
    old = schema_of()
    attributes = {key: part for key, part in {**old.to_dict()["attributes"], name: attribute}.items() if part}
    with pytest.raises(SchemaError, match=says):
        check_growth(old, schema_of(attributes=attributes))


def test_the_chain_is_over_what_is_said():
    part = open_series_record()
    for change in ({"period": "2026-02"}, {"corrects": 1}, {"bytes": 1}, {"private": True}, {"mechanism": "x"}):
        assert replace(part, **change).chained("").chain != part.chained("").chain
    assert part.chained("a").chain != part.chained("").chain


def open_series_record():
    return PartRecord(1, "2026-01", "0" * 64, 5, Fraction(1), "cells", private=False)


def test_a_part_keeps_its_own_signature(tmp_path):
    """It is read beside the part, checked, kept under the chain, told, and given back."""
    path, key = tmp_path / "visits.sfumato", tmp_path / "k"
    make_keys(key)
    parts = [
        replace(one, published=None).save(tmp_path / month)
        for one, month in zip(months_of("cells"), MONTHS, strict=True)
    ]
    nowhere = Ledger(tmp_path / "ledger.sqlite")
    text = sign_release(parts[1], key).text
    signature_beside(parts[1]).write_text(text)
    for part, month in zip(parts, MONTHS, strict=True):
        if part is parts[1]:
            before = path.read_bytes()
            signature_beside(part).write_text(sign_release(parts[0], key).text)
            with pytest.raises(SignatureError, match="no signature of"):
                add_part(path, part, month, nowhere)
            signature_beside(part).write_text(text)
            assert path.read_bytes() == before
        add_part(path, part, month, nowhere)
    file = checked_series(path)
    assert [part.signed is not None for part in file.head.parts] == [False, True, False] and file.head.version == 2
    assert [signature and signature.text for _, signature in (extracted(path, month) for month in MONTHS)] == [
        None,
        text,
        None,
    ]
    (tmp_path / "one.sfumato").write_bytes(extracted(path, MONTHS[1])[0])
    (tmp_path / "one.sfumato.sig").write_text(text)
    public = key.with_name("k.pub")
    open_release(tmp_path / "one.sfumato", allow_not_private=True, require_signature=public)
    told = f"parts signed by themselves: 1 of 3 by {sign_release(path, key).by} ({MONTHS[1]})"
    assert told in repr(certificate(path)) and told in str(open_release(path, allow_not_private=True).content.about)
    assert [part["signed_by"] is not None for part in certificate(path).to_dict()["parts"]] == [False, True, False]
    forged = [replace(part) for part in file.head.parts]
    other = replace(forged[1].signed, signature="A" * 86 + "==")
    forged[1] = replace(forged[1], signed=other).chained(forged[0].chain)
    forged[2] = forged[2].chained(forged[1].chain)
    bad = written(path, [part.read_bytes() for part in parts], replace(file.head, parts=forged))
    with pytest.raises(ReleaseFileError, match="signature of its part 2 is forged"):
        checked_series(bad)
    with pytest.raises(ReleaseFileError, match="version"):
        open_series(written(path, [part.read_bytes() for part in parts], replace(file.head, version=1)))
