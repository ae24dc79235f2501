"""Convert a release to its file form (manifest and members) and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sfumato.arrays import Whole
from sfumato.errors import ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.releases.contents.content import Content, Written, kind_named
from sfumato.releases.file.artifact import Artifact, write_artifact
from sfumato.releases.file.fit_records import leaves_out_estimates
from sfumato.releases.file.manifest import (
    BLOCKS,
    DETAILED_VERSION,
    FORMAT_VERSION,
    SCALED_VERSION,
    SOLVED_VERSION,
    Manifest,
    MechanismRecord,
)
from sfumato.releases.file.members import NUMBERS, VALUE, Columns, arrays_in

if TYPE_CHECKING:
    from sfumato.releases.release import Release


@dataclass(frozen=True, eq=False)
class Contents:
    """Manifest and members of a file. Nothing else of a release is written, so the audit of this is one of the file."""

    manifest: Manifest
    members: Mapping[str, Columns]

    @property
    def columns(self) -> dict[str, dict[str, Whole]]:
        """Columns of all members, with concatenated arrays split."""
        by_member = {name: dict(columns) for name, columns in self.members.items()}
        if NUMBERS in by_member and self.manifest.arrays:
            arrays = arrays_in(self.manifest, by_member[NUMBERS].pop(VALUE))
            by_member[NUMBERS] |= {f"array {place}": array for place, array in enumerate(arrays)}
        return by_member


def contents_of(release: Release) -> Contents:
    """File form of a release."""
    written = release.content.write()
    manifest = Manifest(
        kind=written.kind,
        schema=release.content.schema.to_dict(),
        mechanism=MechanismRecord(release.mechanism, dict(release.options)),
        guarantee=release.guarantee,
        private=release.private,
        statistics=written.statistics,
        receipt=release.receipt,
        version=_version(written),
        **written.further,
    )
    return Contents(manifest, written.members)


def _version(written: Written) -> Literal[2, 3, 4, 5]:
    """Least format version that can hold what is written, so that older Sfumatos read what they can."""
    if written.further.get("details"):
        return SCALED_VERSION if BLOCKS in written.members else DETAILED_VERSION
    return SOLVED_VERSION if leaves_out_estimates(written.further.get("fits", ())) else FORMAT_VERSION


def save_release(release: Release, path: Path) -> None:
    """Write a release atomically and report its digest."""
    contents = contents_of(release)
    digest = write_artifact(path, contents.manifest, contents.members)
    if release.published is not None:
        release.published(digest)


def read_content(artifact: Artifact) -> Content:
    """Restore the content of an untrusted, checked file."""
    try:
        return kind_named(artifact.manifest.kind).read(artifact.manifest, artifact.schema, artifact.read)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"cannot open {artifact.path}: {error}", kind=error.kind) from None
