"""Keys and signatures, as a curator makes them and a reader asks for them."""

from __future__ import annotations

import pytest
from running import sfumato
from small_release import refused, release, write_small_table

COUNT = "SELECT COUNT(*) AS n FROM census"


@pytest.fixture
def signed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_table()
    assert release().returncode == 0
    assert sfumato("keygen", "k").returncode == 0
    run = sfumato("sign", "r.sfumato", "--key", "k")
    assert run.returncode == 0 and "SHA256:" in run.stdout and (tmp_path / "r.sfumato.sig").exists()
    return tmp_path


def test_commands_open_what_is_signed_and_refuse_what_is_not(signed, monkeypatch):
    commands = [
        ("query", "r.sfumato", COUNT),
        ("info", "r.sfumato"),
        ("sample", "r.sfumato", "--rows", "5", "-o", "rows.csv"),
        ("certificate", "r.sfumato"),
    ]
    for command in commands:
        assert sfumato(*command, "--require-signature", "k.pub").returncode == 0, command
    sfumato("keygen", "other")
    for command in commands:
        refused(sfumato(*command, "--require-signature", "other.pub"), "another key")
    (signed / "r.sfumato.sig").rename("away.sig")
    monkeypatch.setenv("SFUMATO_EXIT_CODES", "distinct")
    for command in commands:
        refused(sfumato(*command, "--require-signature", "k.pub"), "not signed", code=7)
    assert sfumato("query", "r.sfumato", COUNT).returncode == 0


def test_keys_are_not_overwritten_and_signatures_are_kept(signed):
    refused(sfumato("keygen", "k"), "never overwritten")
    refused(sfumato("sign", "r.sfumato", "--key", "k.pub"), "no private key")
    refused(sfumato("query", "r.sfumato", COUNT, "--require-signature", "k"), "private key", "name the .pub")
    refused(sfumato("sign", "missing.sfumato", "--key", "k"), "cannot open")
    again = sfumato("sign", "r.sfumato", "--key", "k")
    assert "kept as r.sfumato.sig.~1~" in again.stdout


def test_both_commands_are_followed_by_their_file(tmp_path, monkeypatch):
    """As `-o` the key's file is still taken; none or two are a mistake of usage, and write nothing."""
    monkeypatch.chdir(tmp_path)
    for wrong in ((), ("k", "-o", "l")):
        run = sfumato("keygen", *wrong)
        assert run.returncode == 2 and "name one file" in run.stderr and not list(tmp_path.iterdir())
    assert sfumato("keygen", "-o", "old").returncode == 0 and (tmp_path / "old.pub").exists()
    assert "KEY" in sfumato("keygen", "--help").stdout and "--out" not in sfumato("keygen", "--help").stdout
