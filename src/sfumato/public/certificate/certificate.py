"""The certificate of a release: everything that it promises and what it can be held to, in one machine-readable record.

It is worked out from the file, which is checked in every byte as it is opened. Nothing is added to the file: a record
that was written into it could say something else than the file does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.answers.shown.full_json import guarantee_record
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import readable
from sfumato.measurement import Gaussian
from sfumato.public.certificate.facts import Facts
from sfumato.releases.description.group_privacy import group_privacy
from sfumato.releases.signature.signature import Signature, check_signature, read_signature, signature_beside
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato.releases.contents.content import Content
    from sfumato.releases.file.manifest import Manifest
    from sfumato.schema import Schema

LAPLACE, GAUSSIAN = "discrete Laplace", "discrete Gaussian"
FAMILIES = (1, 2, 3, 4)


@dataclass(frozen=True, eq=False)
class Certificate:
    """A release as its certificate sees it. verified: whether the signature was checked with a key that was named.

    file, sha256, bytes: of the release file itself, as `sha256sum` says them. written_on: when it was last written, as
    the file system knows it, which the file does not.
    """

    file: str
    sha256: str
    bytes: int
    digest: str
    manifest: Manifest
    schema: Schema
    content: Content
    facts: Facts = field(default_factory=Facts)
    signature: Signature | None = None
    verified: bool = False
    written_on: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The record, of types that JSON knows; amounts of privacy as exact text."""
        from sfumato.public.certificate.registry import missing_fields, registry_record

        about, unit = self.manifest, self.schema.privacy_unit
        promised, stated = about.guarantee, self.schema.budget
        groups = group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho, people=FAMILIES)
        total = None if stated is None else readable(stated.epsilon)
        return {
            "format": "sfumato-certificate",
            "version": 1,
            "registry": registry_record(self),
            "missing": missing_fields(self),
            "guarantee": {
                **guarantee_record(promised),
                "unit_column": unit.column,
                "contributions": unit.contributions,
                "groups": [one.record for one in groups],
                "private": about.private,
            },
            "mechanism": {
                **self.recipe,
                "options": dict(about.mechanism.options),
                "noise": list(self.noises),
                "publishes": self.content.about.extent,
            },
            "budget": {"total_epsilon": total, "receipt": about.receipt},
            "software": {
                "written_by": about.written_by,
                "format_version": about.version,
                "certificate_by": f"sfumato {__version__}",
            },
            "hashes": {
                "digest": self.digest,
                "file": {"name": self.file, "sha256": self.sha256, "bytes": self.bytes},
                "members": {
                    member.file: {"sha256": member.sha256, "bytes": member.bytes} for member in about.members.values()
                },
            },
            "signature": self.signature_record,
            "limits": about.limits,
        }

    @property
    def signature_record(self) -> dict[str, Any] | None:
        """What is known of a signature beside the file; None where there is none."""
        if self.signature is None:
            return None
        of_this = self.signature.digest == self.digest
        return {"key": self.signature.by, "of_this_file": of_this, "verified": self.verified}

    @property
    def noises(self) -> tuple[str, ...]:
        """The kinds of noise that were drawn, without their scales, which stand in the file."""
        drawn = {isinstance(noise, Gaussian) for one in self.content.about.measured for noise in one.noises}
        return tuple(name for name, gaussian in ((LAPLACE, False), (GAUSSIAN, True)) if gaussian in drawn)

    @property
    def recipe(self) -> dict[str, str]:
        """The mechanism by name, with what this Sfumato knows of it."""
        from sfumato.models import find_mechanism

        name = self.manifest.mechanism.name
        try:
            found = find_mechanism(name)
        except SfumatoError:  # of a newer Sfumato, or somebody's own
            return {"name": name}
        return {"name": name, "summary": found.summary, "from": found.paper, "page": f"docs/{found.docs}"}

    def croissant(self) -> dict[str, Any]:
        """The record as JSON-LD: a schema.org Dataset, in the Croissant format."""
        from sfumato.public.certificate.croissant import croissant_record

        return croissant_record(self)

    def registry(self) -> dict[str, Any]:
        """The record in the fields of the public registry of deployments."""
        from sfumato.public.certificate.registry import registry_record

        return registry_record(self)

    def __repr__(self) -> str:
        from sfumato.public.certificate.in_words import in_words

        return in_words(self)


def certificate(
    path: str | PathLike[str],
    *,
    facts: Mapping[str, str] | None = None,
    require_signature: str | PathLike[str] | None = None,
    most_cells: int | None = None,
) -> Certificate:
    """The certificate of a release file.

    facts: what only the curator knows, by name: curator, published, license, ... (docs/certificate.md).
    require_signature, most_cells: as `sfumato.open` takes them.
    """
    from sfumato.releases.file.artifact import read_artifact
    from sfumato.releases.file.store import read_content

    stated = Facts.of(facts or {})
    artifact = read_artifact(path, most_cells)
    if require_signature is None:
        signature = read_signature(signature_beside(path))
    else:
        signature = check_signature(path, artifact.digest, require_signature)
    raw = Path(path).read_bytes()
    return Certificate(
        Path(path).name,
        hashlib.sha256(raw).hexdigest(),
        len(raw),
        artifact.digest,
        artifact.manifest,
        artifact.schema,
        read_content(artifact),
        stated,
        signature,
        require_signature is not None,
        datetime.fromtimestamp(Path(path).stat().st_mtime, UTC).date().isoformat(),
    )
