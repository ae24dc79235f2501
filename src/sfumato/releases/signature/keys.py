"""A curator's keys: Ed25519, the private one for the curator alone, the public one for whoever checks.

Both are PEM files as other programs write them, so that keys can be made and looked at elsewhere (`openssl pkey`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import SignatureError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ENDING = ".pub"  # of the public key's file, beside the private one's
MOST_BYTES = 10_000  # of a key file


def make_keys(path: Path) -> tuple[Path, str]:
    """Write a new pair of keys, and say where the public one is and what its fingerprint is. Nothing is overwritten."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    public_path = path.with_name(path.name + ENDING)
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
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_private(path: Path) -> Ed25519PrivateKey:
    """A curator's own key, which nobody else may be able to read."""
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
    """The key that a signature must be by."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = _content(path)
    if b"PRIVATE KEY" in content:
        raise SignatureError(f"{path} is a private key, which belongs to its owner alone; name the {ENDING} beside it")
    try:
        key = load_pem_public_key(content)
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError(f"{path} is no public key of Ed25519 in PEM; name the {ENDING} that the curator gave out")
    return key


def _content(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # before opening: a pipe would wait for ever
            raise SignatureError(f"{path} is not a file; name a key file")
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or "it cannot be read"
        raise SignatureError(f"the key {path} cannot be read ({reason}); name a key file") from None


def raw(key: Ed25519PublicKey) -> bytes:
    """The 32 bytes of a public key."""
    return key.public_bytes_raw()


def fingerprint(key: Ed25519PublicKey | bytes) -> str:
    """A public key in one short line, to be compared by people.

    >>> fingerprint(bytes(32))
    'SHA256:Zmh6rfhivXdsj8GLjp+OIAiXFIVu4jOzkCpZHQ1fKSU'
    """
    content = key if isinstance(key, bytes) else raw(key)
    return "SHA256:" + b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
