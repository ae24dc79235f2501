"""The JSON-LD is a Croissant dataset by the rules of its specification."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.public.certificate.record import CONFORMS

FACTS = {"curator": "Office", "published": "2026-01-31", "license": "CC-BY-4.0", "url": "https://example.org/t"}
REQUIRED = ("@context", "@type", "conformsTo", "description", "license", "name", "url", "creator", "datePublished")


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    folder = tmp_path_factory.mktemp("croissant")
    attributes = {name: {"type": "boolean"} for name in "abc"}
    schema = sf.Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "budget": {"epsilon": 9}, "attributes": attributes}
    )
    rows = pa.table({name: [True, False] * 30 for name in "abc"})
    made = sf.release(rows, schema, 1, mechanism="margins", ledger=folder / "ledger")
    return sf.certificate(made.save(folder / "t.sfumato"), facts=FACTS).croissant()


def test_all_that_is_required_is_there_and_every_reference_leads_somewhere(record):
    assert all(record.get(name) for name in REQUIRED) and record["conformsTo"] == CONFORMS
    files = {one["@id"]: one for one in record["distribution"]}
    assert all(one["@type"] == "cr:FileObject" and one["encodingFormat"] for one in files.values())
    assert all(one.get("containedIn", {"@id": "release"})["@id"] in files for one in files.values())
    listed = [one["@id"] for one in record["recordSet"]] + [
        column["@id"] for one in record["recordSet"] for column in one["field"]
    ]
    assert len(set(listed) | set(files)) == len(listed) + len(files)  # an @id is given once
    for one in record["recordSet"]:
        assert one["@type"] == "cr:RecordSet" and one["field"]
        for column in one["field"]:
            assert column["dataType"] == "sc:Integer" and column["source"]["fileObject"]["@id"] in files
            assert column["@id"].startswith(one["@id"] + "/")
