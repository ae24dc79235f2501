"""Keys: made once, kept private, told apart."""

from __future__ import annotations

import stat

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sfumato.errors import SignatureError
from sfumato.releases.signature import fingerprint, make_keys, read_private, read_public


def test_a_pair_of_keys_belongs_together_and_the_private_one_to_its_owner(tmp_path):
    public, shown = make_keys(tmp_path / "k")
    assert public == tmp_path / "k.pub"
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    assert read_private(tmp_path / "k").public_key() == read_public(public)
    assert shown == fingerprint(read_public(public)) and shown.startswith("SHA256:")


@pytest.mark.parametrize("taken", ["k", "k.pub"])
def test_no_key_is_ever_overwritten(tmp_path, taken):
    (tmp_path / taken).write_text("mine")
    with pytest.raises(SignatureError, match="never overwritten"):
        make_keys(tmp_path / "k")
    assert (tmp_path / taken).read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


def test_a_private_key_that_others_can_read_is_refused(tmp_path):
    make_keys(tmp_path / "k")
    (tmp_path / "k").chmod(0o640)
    with pytest.raises(SignatureError, match="others can read"):
        read_private(tmp_path / "k")


def test_what_is_no_key_is_refused_in_one_line(tmp_path):
    make_keys(tmp_path / "k")
    other = x25519.X25519PrivateKey.generate()
    files = {
        "empty": b"",
        "noise": b"\x00\xff" * 900,
        "x25519": other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "x25519.pub": other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "raw": ed25519.Ed25519PrivateKey.generate().private_bytes_raw(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    for name in [*files, "k.pub", "missing"]:
        with pytest.raises(SignatureError) as refused:
            read_private(tmp_path / name)
        assert "\n" not in str(refused.value)
    for name in [*files, "k", "missing"]:
        with pytest.raises(SignatureError) as refused:
            read_public(tmp_path / name)
        assert "\n" not in str(refused.value)
    with pytest.raises(SignatureError, match="not a file"):
        read_public(tmp_path)
