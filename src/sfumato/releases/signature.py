"""Ed25519 signatures of releases, in a file beside the release, and the curator's keys as PEM files.

The signature lies beside and not inside, because the release is then the file that the ledger knows by its digest, that
earlier Sfumatos open, and that has the same bytes whoever signs it. The release's digest is signed. It covers the
manifest, which has the sha256 and the size of every member, and a reader refuses every byte that these do not determine
(`releases/file/artifact.py`). So exactly one file goes with a digest. It is the digest of the bytes that were parsed:
nothing is read twice, so the file cannot be changed between check and use.

Keys are made and inspected by other programs too (`openssl pkey`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sfumato.errors import SignatureError
from sfumato.frozen import dataclass

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    from sfumato.releases.file.series import PartRecord, PartsFile, SeriesFile

    Parts = TypeVar("Parts", bound=PartsFile)

KEY_ENDING = ".pub"  # of the public key's file, beside the private one's
MOST_KEY_BYTES = 10_000  # of a key file
MOST_LISTED = 6  # periods in a line


def make_keys(path: Path) -> tuple[Path, str]:
    """Write a new key pair; return the path and fingerprint of the public key. Nothing is overwritten."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    public_path = path.with_name(path.name + KEY_ENDING)
    for taken in (path, public_path):
        if taken.exists():
            raise SignatureError(f"{taken} exists, and keys are never overwritten; choose another name with -o")
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    try:
        _write_new(path, private, 0o600)  # never readable by others, not even for a moment
        _write_new(public_path, public, 0o644)
    except OSError as error:
        reason = error.strerror or "no access"
        raise SignatureError(f"{path} cannot be written ({reason}); choose another place with -o") from None
    return public_path, fingerprint(key.public_key())


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Create a file with given permissions and sync it; fail if it exists."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_private(path: Path) -> Ed25519PrivateKey:
    """Read a private key, and refuse one that other users can read."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _content(path)
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError):  # TypeError: it asks for a password
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError(f"{path} is no private key of Ed25519 in PEM; make one with `sfumato keygen FILE`")
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise SignatureError(f"others can read {path}; keep a private key to yourself: chmod 600, or make a new one")
    return key


def read_public(path: Path) -> Ed25519PublicKey:
    """Read the public key to verify a signature with."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = _content(path)
    if b"PRIVATE KEY" in content:
        raise SignatureError(
            f"{path} is a private key, which belongs to its owner alone; name the {KEY_ENDING} beside it"
        )
    try:
        key = load_pem_public_key(content)
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError(
            f"{path} is no public key of Ed25519 in PEM; name the {KEY_ENDING} that the curator gave out"
        )
    return key


def _content(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # before opening: a pipe would wait for ever
            raise SignatureError(f"{path} is not a file; name a key file")
        with path.open("rb") as file:
            return file.read(MOST_KEY_BYTES)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or "it cannot be read"
        raise SignatureError(f"the key {path} cannot be read ({reason}); name a key file") from None


def fingerprint(key: Ed25519PublicKey | bytes) -> str:
    """Fingerprint of a public key: SHA-256 in base64, to be compared by people.

    >>> fingerprint(bytes(32))
    'SHA256:Zmh6rfhivXdsj8GLjp+OIAiXFIVu4jOzkCpZHQ1fKSU'
    """
    content = key if isinstance(key, bytes) else key.public_bytes_raw()
    return "SHA256:" + b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


ENDING = ".sig"  # after the name of the release
SIGNED = b"sfumato release signature, version 1\n"  # so that a signature of anything else is none of a release
MOST_BYTES = 4096

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Signature:
    """Content of a signature file; public_key and signature are base64, digest identifies the release."""

    digest: str
    public_key: str
    signature: str
    algorithm: str = "Ed25519"
    format: str = "sfumato-signature"
    version: int = 1

    @property
    def text(self) -> str:
        """Text of the signature file."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @property
    def by(self) -> str:
        """Fingerprint of the key that the signature claims; not a proof."""
        return fingerprint(b64decode(self.public_key))


def signature_beside(path: str | PathLike[str]) -> Path:
    """Path of a release's signature file."""
    return Path(path).with_name(Path(path).name + ENDING)


def sign_digest(digest: str, key: Ed25519PrivateKey) -> Signature:
    """Sign the release with this digest."""
    signed = key.sign(SIGNED + bytes.fromhex(digest))
    return Signature(digest, b64encode(key.public_key().public_bytes_raw()).decode(), b64encode(signed).decode())


def sign_release(path: str | PathLike[str], key: str | PathLike[str]) -> Signature:
    """Sign a release file after the checks of opening it; the caller stores the text."""
    from sfumato.releases.file.artifact import read_artifact

    private, parts = read_private(Path(key)), checked_parts(path)
    return sign_digest(read_artifact(path).digest if parts is None else parts.digest, private)


def check_signature(path: str | PathLike[str], digest: str, key: str | PathLike[str]) -> Signature:
    """Verify a release's signature, or raise. digest: of the bytes that were opened. key: a public key file."""
    from cryptography.exceptions import InvalidSignature

    wanted = read_public(Path(key))
    beside = signature_beside(path)
    signature = read_signature(beside)
    if signature is None:
        raise SignatureError(
            f"{path} is not signed: there is no {beside.name} beside it; ask the publisher for it, or have the release "
            "signed with `sfumato sign`"
        )
    if b64decode(signature.public_key) != wanted.public_bytes_raw():
        raise SignatureError(
            f"{path} is signed by another key, {signature.by}, and not by {fingerprint(wanted)}; do not trust it, or "
            "name the key of whoever signed it"
        )
    if signature.digest != digest:
        raise SignatureError(
            f"{beside.name} is the signature of another release: {path} was changed or replaced since it was signed; "
            "ask the publisher for both files"
        )
    try:
        wanted.verify(b64decode(signature.signature), SIGNED + bytes.fromhex(digest))
    except InvalidSignature:
        raise SignatureError(
            f"{beside.name} is forged or damaged: it is no signature of {path} by {fingerprint(wanted)}; ask the "
            "publisher for a fresh copy"
        ) from None
    return signature


def holds(signature: Signature) -> bool:
    """Whether a signature is one of its digest by the key that it names, whoever's that is."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if _parsed(signature.text.encode("utf-8")) is None:
        return False
    key = Ed25519PublicKey.from_public_bytes(b64decode(signature.public_key))
    try:
        key.verify(b64decode(signature.signature), SIGNED + bytes.fromhex(signature.digest))
    except InvalidSignature:
        return False
    return True


def checked_signature(part: PartRecord) -> Signature | None:
    """A part's own signature, checked with the key that it names; None where it has none."""
    from sfumato.releases.file.records import refusal

    if part.signed is None:
        return None
    signature = Signature(part.signed.digest, part.signed.public_key, part.signed.signature)
    if not holds(signature):
        raise refusal(f"the signature of its part {part.number} is forged or damaged")
    return signature


def signed_parts(parts: Sequence[PartRecord]) -> str:
    """Describe which parts were signed by themselves, and by whom; empty where none was.

    Each signature is checked with the key that it names. Whose key that is, a reader knows by its fingerprint.
    """
    by_key: dict[str, list[str]] = {}
    for part in parts:
        if (signature := checked_signature(part)) is not None:
            by_key.setdefault(signature.by, []).append(part.period)
    said = []
    for key, periods in by_key.items():
        listed = ", ".join(periods[:MOST_LISTED]) + ", ..." * (len(periods) > MOST_LISTED)
        said.append(f"{len(periods)} of {len(parts)} by {key} ({listed})")
    return f"parts signed by themselves: {', '.join(said)}; checked with the keys that they name" if said else ""


def checked_series(path: str | PathLike[str], most_cells: int | None = None) -> SeriesFile:
    """An open series of which every byte and signature of a part was checked, not only what is asked for."""
    from sfumato.releases.file.series import open_series

    return _checked(open_series(path, most_cells))


def checked_parts(path: str | PathLike[str], most_cells: int | None = None) -> PartsFile | None:
    """An open series or file of linked tables of which every byte was checked; None of a plain release."""
    from sfumato.releases.file.artifact import is_linked, is_series
    from sfumato.releases.file.linked import open_linked

    if is_series(path):
        return checked_series(path, most_cells)
    return _checked(open_linked(path, most_cells)) if is_linked(path) else None


def _checked(file: Parts) -> Parts:
    for part in file.head.parts:
        file.artifact(part)
        checked_signature(part)
    return file


def read_signature(path: Path) -> Signature | None:
    """Read an untrusted signature file; None where there is none."""
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
    signature = _parsed(content)
    if signature is None:
        raise SignatureError(f"{path} is not a signature that Sfumato writes; ask the publisher for a fresh copy")
    return signature


def _parsed(content: bytes) -> Signature | None:
    """Parse a signature file in its one canonical spelling; None for any other bytes."""
    if len(content) > MOST_BYTES:
        return None
    try:
        signature = Signature(**json.loads(content.decode("utf-8")))
        same = signature.text.encode("utf-8") == content  # one spelling only, so that nothing can hide in it
        whole = (
            len(b64decode(signature.public_key, validate=True)),
            len(b64decode(signature.signature, validate=True)),
        )
        ours = (signature.format, signature.version, signature.algorithm) == ("sfumato-signature", 1, "Ed25519")
        return signature if same and whole == (32, 64) and ours and _DIGEST.fullmatch(signature.digest) else None
    except (ValueError, TypeError, RecursionError, NotBase64):
        return None
