"""Who vouches for a release: an Ed25519 signature by its curator, in a file of its own beside it.

It lies beside and not inside, because the release is then the very file that the ledger knows by its digest, that
earlier Sfumatos open, and that is the same bytes whoever signs it.

What is signed is the release's digest. It covers the manifest, which has the sha256 and the size of every member; and
a reader refuses every byte of the file that these do not settle (`releases/file/zip.py`, `artifact.py`). So one file,
and one only, goes with a digest. The digest is that of the bytes that were parsed: nothing is read twice, so nobody can
change the file between the check and the use.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import SignatureError
from sfumato.frozen import dataclass
from sfumato.releases.signature.keys import fingerprint, raw, read_private, read_public

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ENDING = ".sig"  # after the name of the release
SIGNED = b"sfumato release signature, version 1\n"  # so that a signature of anything else is none of a release
MOST_BYTES = 4096

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Signature:
    """What a signature file holds. public_key and signature are base64; digest names the release."""

    digest: str
    public_key: str
    signature: str
    algorithm: str = "Ed25519"
    format: str = "sfumato-signature"
    version: int = 1

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @property
    def by(self) -> str:
        """The fingerprint of the key that it says it is by; nothing is proved by that."""
        return fingerprint(b64decode(self.public_key))


def signature_beside(path: str | PathLike[str]) -> Path:
    """Where the signature of a release file is."""
    return Path(path).with_name(Path(path).name + ENDING)


def sign_digest(digest: str, key: Ed25519PrivateKey) -> Signature:
    """The signature of the release that has this digest."""
    signed = key.sign(SIGNED + bytes.fromhex(digest))
    return Signature(digest, b64encode(raw(key.public_key())).decode(), b64encode(signed).decode())


def sign_release(path: str | PathLike[str], key: str | PathLike[str]) -> Signature:
    """Sign a release file, after checking it as whoever opens it does; where to keep the text is the caller's."""
    from sfumato.releases.file.artifact import read_artifact

    private = read_private(Path(key))
    return sign_digest(read_artifact(path).digest, private)


def check_signature(path: str | PathLike[str], digest: str, key: str | PathLike[str]) -> Signature:
    """Refuse a release that its curator did not sign. digest: of the bytes that were opened. key: a public key file."""
    wanted = read_public(Path(key))
    beside = signature_beside(path)
    found = read_signature(beside)
    if found is None:
        raise SignatureError(
            f"{path} is not signed: there is no {beside.name} beside it; ask the publisher for it, or have the release "
            "signed with `sfumato sign`"
        )
    _verify(found, path, beside, digest, wanted)
    return found


def read_signature(path: Path) -> Signature | None:
    """An untrusted signature file; None where there is none."""
    try:
        if not path.exists():
            return None
        if not path.is_file():
            raise SignatureError(f"{path} is not a file; ask the publisher for the signature")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be read"
        raise SignatureError(f"the signature {path} cannot be read ({reason}); check your access to it") from None
    found = _parsed(content)
    if found is None:
        raise SignatureError(f"{path} is not a signature that Sfumato writes; ask the publisher for a fresh copy")
    return found


def _parsed(content: bytes) -> Signature | None:
    if len(content) > MOST_BYTES:
        return None
    try:
        found = Signature(**json.loads(content.decode("utf-8")))
        same = found.text.encode("utf-8") == content  # one spelling only, so that nothing can hide in it
        whole = (len(b64decode(found.public_key, validate=True)), len(b64decode(found.signature, validate=True)))
        known = (found.format, found.version, found.algorithm) == ("sfumato-signature", 1, "Ed25519")
        return found if same and whole == (32, 64) and known and _DIGEST.fullmatch(found.digest) else None
    except (ValueError, TypeError, RecursionError, NotBase64):
        return None


def _verify(found: Signature, path: str | PathLike[str], beside: Path, digest: str, wanted: Ed25519PublicKey) -> None:
    from cryptography.exceptions import InvalidSignature

    if b64decode(found.public_key) != raw(wanted):
        raise SignatureError(
            f"{path} is signed by another key, {found.by}, and not by {fingerprint(wanted)}; do not trust it, or name "
            "the key of whoever signed it"
        )
    if found.digest != digest:
        raise SignatureError(
            f"{beside.name} is the signature of another release: {path} was changed or replaced since it was signed; "
            "ask the publisher for both files"
        )
    try:
        wanted.verify(b64decode(found.signature), SIGNED + bytes.fromhex(digest))
    except InvalidSignature:
        raise SignatureError(
            f"{beside.name} is forged or damaged: it is no signature of {path} by {fingerprint(wanted)}; ask the "
            "publisher for a fresh copy"
        ) from None
