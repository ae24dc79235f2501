"""Croissant record of a release: a schema.org Dataset as JSON-LD (MLCommons, version 1.1).

The file is a zip of Parquet members, which Croissant can name, hash and read; the meaning of attributes is given in
schema.org's own words. Fields that Croissant requires and a file does not hold (licence, creator, date, address) come
from the curator's facts.
"""

from __future__ import annotations

from typing import Any

from sfumato.plain_text import printable
from sfumato.public.certificate.certified import Certified
from sfumato.schema.columns import columns_of

CONFORMS = "http://mlcommons.org/croissant/1.1"
# The format's own names, each an alias of its term; "@json" and "@vocab" say how their values are read.
TERMS = (
    *("annotation", "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "excludes", "extract"),
    *("field", "fileProperty", "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath"),
    *("key", "md5", "parentField", "path", "recordSet", "references", "regex", "readLines", "repeated", "replace"),
    *("samplingRate", "sdVersion", "separator", "source", "subField", "transform", "unArchive", "value"),
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    **{term: f"cr:{term}" for term in TERMS},
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
}


def croissant_record(of: Certified) -> dict[str, Any]:
    """The Dataset, with the file, its members and their columns."""
    promised, facts = of.manifest.guarantee, of.facts
    told = {
        "license": facts.license,
        "url": facts.url,
        "creator": None if facts.curator is None else {"@type": "Organization", "name": facts.curator},
        "datePublished": facts.published,
    }
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": printable(of.schema.dataset),
        "description": printable(
            f"{of.schema.dataset}: {of.content.about.extent}, released with differential privacy. {promised.statement}"
        ),
        "conformsTo": CONFORMS,
        "citeAs": printable(f"{of.schema.dataset}, a differentially private release, sha256:{of.digest}"),
        **{name: value for name, value in told.items() if value is not None},
        "version": "1.0.0",
        "isLiveDataset": False,
        "keywords": ["differential privacy", of.manifest.mechanism.name],
        "identifier": f"sha256:{of.digest}",
        "measurementTechnique": printable(f"{promised.definition}; unit: {promised.unit}; {promised.neighbours}"),
        "variableMeasured": [
            {
                "@type": "PropertyValue",
                "name": printable(one.name),
                "description": printable(f"{one.type}: {one.values}"),
            }
            for one in columns_of(of.schema)
        ],
        "distribution": _files(of),
        "recordSet": [_records(member, one.columns) for member, one in of.manifest.members.items()],
    }


def _files(of: Certified) -> list[dict[str, Any]]:
    whole = {
        "@type": "cr:FileObject",
        "@id": "release",
        "name": printable(of.file),
        "contentUrl": printable(of.file)
        if of.facts.url is None
        else f"{of.facts.url.rstrip('/')}/{printable(of.file)}",
        "contentSize": f"{of.bytes} B",
        "encodingFormat": "application/zip",
        "sha256": of.sha256,
    }
    members = [
        {
            "@type": "cr:FileObject",
            "@id": one.file,
            "name": one.file,
            "contentUrl": one.file,
            "containedIn": {"@id": "release"},
            "contentSize": f"{one.bytes} B",
            "encodingFormat": "application/x-parquet",
            "sha256": one.sha256,
        }
        for one in of.manifest.members.values()
    ]
    return [whole, *members]


def _records(member: str, columns: list[str]) -> dict[str, Any]:
    """Columns of a member: whole numbers, whose meaning the manifest has; Sfumato reads them for queries in SQL."""
    return {
        "@type": "cr:RecordSet",
        "@id": member,
        "name": member,
        "description": "Noisy whole numbers as published; the manifest says of what, and with which noise.",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{member}/{place}",
                "name": printable(column),
                "description": printable(f"Column {column} of {member}.parquet."),
                "dataType": "sc:Integer",
                "source": {"fileObject": {"@id": f"{member}.parquet"}, "extract": {"column": column}},
            }
            for place, column in enumerate(columns)
        ],
    }
