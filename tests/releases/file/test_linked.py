"""A file of linked tables is written whole, opened with suspicion, and answers for all of its tables."""

from __future__ import annotations

import zlib
from dataclasses import replace
from fractions import Fraction

import pytest
from hospital import LINKS, linked, linked_file, parts_of

from sfumato.errors import QueryError, ReleaseFileError, SignatureError
from sfumato.public.certificate.record import certificate
from sfumato.public.combination import combine
from sfumato.public.comparison import compare
from sfumato.public.report.report import report
from sfumato.releases.file.artifact import TABLES_FILE, Entry, directory_of, is_linked, is_series
from sfumato.releases.file.linked import TableRecord, open_linked, write_linked
from sfumato.releases.file.series import head_bytes
from sfumato.releases.linked import guarantee_of_tables, one_table
from sfumato.releases.release import open_release
from sfumato.releases.signature import checked_parts, make_keys, sign_release, signature_beside


@pytest.fixture
def path(tmp_path):
    return linked_file(tmp_path)


def rewritten(path, head, bodies=None):
    """Write a file in the right layout with this head, whatever it says."""
    opened = open_linked(path)
    bodies = bodies or [opened.body(part) for part in opened.head.parts]
    entries, whole = [], b""
    for name, body in [
        (TABLES_FILE, head_bytes(head)[0]),
        *((f"part_{at:04}.sfumato", each) for at, each in enumerate(bodies, 1)),
    ]:
        entries.append(Entry(name, zlib.crc32(body), len(body), entries[-1].end if entries else 0))
        whole += entries[-1].local + body
    out = path.with_name("made.sfumato")
    out.write_bytes(whole + directory_of(entries))
    return out


def chained(parts):
    """Entries with a chain that is right, as a forger would make it."""
    before, made = "", []
    for part in parts:
        made.append(part.chained(before))
        before = made[-1].chain
    return made


def test_it_opens_as_a_release_and_its_tables_are_those_that_were_published(path):
    whole = open_release(path, allow_not_private=True)
    assert is_linked(path) and not is_series(path)
    for link in LINKS:
        alone = open_release(path.with_name(f"{link.name}.part"), allow_not_private=True)
        asked = f"SELECT COUNT(*) AS n FROM {link.name}"
        assert whole.query(asked).rows == alone.query(asked).rows == whole.tables[link.name].query(asked).rows
    copy = whole.save(path.with_name("copy.sfumato"))
    assert copy.read_bytes() == path.read_bytes()
    with pytest.raises(Exception, match="NOT PRIVATE"):
        open_release(path)


def test_losses_of_tables_add_up(path):
    promised = open_release(path, allow_not_private=True).guarantee
    assert promised.epsilon == 16 and "at most 4 of persons and 24 of visits" in promised.unit
    file = open_linked(path)
    mixed = [replace(part, delta=Fraction(1, 10**9), rho=Fraction(1, 100)) for part in file.head.parts]
    gaussian = guarantee_of_tables(
        replace(file, head=replace(file.head, parts=mixed)), parts_of("cells")["persons"].schema
    )
    assert gaussian.rho == Fraction(2, 100)  # rho adds up, and epsilon follows from it


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda head: replace(head, parts=head.parts[::-1]), "dropped or moved"),
        (lambda head: replace(head, parts=[head.parts[0], replace(head.parts[1], sha256="0" * 64)]), "chain breaks"),
        (lambda head: replace(head, parts=head.parts[:1]), "not those of its tables"),
        (lambda head: replace(head, tables=head.tables[::-1]), "belongs to no table before it"),
        (
            lambda head: replace(head, tables=[head.tables[0], replace(head.tables[1], limit=6)]),
            "not that of its links",
        ),
        (lambda head: replace(head, tables=[head.tables[0], replace(head.tables[1], by=None)]), "not whole"),
        (lambda head: replace(head, tables=[head.tables[0], replace(head.tables[1], name="Persons")]), "two tables"),
        (lambda head: replace(head, tables=[replace(head.tables[0], key=None), head.tables[1]]), "that has a key"),
        (lambda head: replace(head, tables=[replace(head.tables[0], carried=["age"]), head.tables[1]]), "no table"),
        (
            lambda head: replace(head, tables=[replace(head.tables[0], counts={"others": "age"}), head.tables[1]]),
            "do not belong to it",
        ),
        (
            lambda head: replace(head, tables=[replace(head.tables[0], limit=2), replace(head.tables[1], limit=12)]),
            "not as many as its link says",
        ),
        (
            lambda head: replace(head, tables=[head.tables[0], replace(head.tables[1], carried=["sex"])]),
            "not the columns",
        ),
        (
            lambda head: replace(head, parts=chained([head.parts[0], replace(head.parts[1], epsilon=Fraction(1))])),
            "not what the head says",
        ),
    ],
)
def test_a_head_that_says_otherwise_is_refused(path, change, says):
    out = rewritten(path, change(open_linked(path).head))
    with pytest.raises(ReleaseFileError, match=says):
        open_release(out, allow_not_private=True)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_byte_that_was_changed_is_found(path, place):
    raw = bytearray(path.read_bytes())
    raw[int(place * len(raw))] ^= 1
    path.write_bytes(bytes(raw))
    with pytest.raises(ReleaseFileError):
        open_release(path, allow_not_private=True)


def test_swapped_tables_are_refused(path):
    opened = open_linked(path)
    bodies = [opened.body(part) for part in opened.head.parts][::-1]
    with pytest.raises(ReleaseFileError, match="not those its head names"):
        open_release(rewritten(path, opened.head, bodies), allow_not_private=True)


def test_nothing_is_written_of_tables_that_do_not_fit(tmp_path):
    part = replace(parts_of("cells")["visits"], published=None).save(tmp_path / "part")
    for wrong in (replace(LINKS[1], limit=6), LINKS[1], TableRecord("others", 24, key="id")):
        with pytest.raises(ReleaseFileError):
            write_linked(tmp_path / "linked.sfumato", "hospital", [(wrong, part)])
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".sfumato" or "partial" in one.name] == []


def test_a_signature_is_about_every_byte(path):
    public, _ = make_keys(path.with_name("key"))
    signature_beside(path).write_text(sign_release(path, path.with_name("key")).text)
    open_release(path, allow_not_private=True, require_signature=public)
    assert checked_parts(path).digest == open_linked(path).digest
    head = open_linked(path).head
    out = rewritten(path, replace(head, dataset="other"))
    out.replace(path)
    with pytest.raises(SignatureError, match="changed or replaced"):
        open_release(path, allow_not_private=True, require_signature=public)


def test_certificate_report_and_comparison(path):
    record = certificate(path).to_dict()
    assert [part["table"] for part in record["parts"]] == ["persons", "visits"]
    assert record["guarantee"]["epsilon"] == "16" and "24 of visits" in repr(certificate(path))
    with pytest.raises(ReleaseFileError, match="linked tables"):
        combine(path, path.with_name("visits.part"))
    whole = open_release(path, allow_not_private=True)
    with pytest.raises(QueryError, match="persons, visits; name one"):
        compare(whole, whole)
    with pytest.raises(QueryError, match="there are persons, visits"):
        one_table(whole, "stays")
    assert one_table(whole, "Visits").guarantee == whole.guarantee  # a reader of one table has the others too
    assert any("any one household_id in all tables" in note for note in whole.query("DESCRIBE visits").notes)
    with pytest.raises(QueryError, match="alone"):
        one_table(whole.tables["visits"], "persons")
    assert compare(whole.tables["visits"], whole.tables["visits"], by=["ill"]).together > 0
    with pytest.raises(Exception, match="NOT PRIVATE"):
        report(path, table="visits")


def test_description_of_all_tables(tmp_path):
    whole = linked(tmp_path)
    about = whole.describe()
    assert "2 linked tables" in about.extent and len(about.examples) == 4
    assert all(whole.query(text).rows for text in about.examples)
    with pytest.raises(QueryError, match="table by table"):
        whole.sample(3)
