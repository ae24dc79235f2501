"""sfumato certificate, as a user calls it."""

from __future__ import annotations

import json

import yaml
from running import sfumato
from small_release import refused, release, write_small_table


def test_it_is_printed_in_four_forms(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_table()
    assert release().returncode == 0
    text = sfumato("certificate", "r.sfumato")
    assert text.returncode == 0 and text.stdout.startswith("Certificate of census\n")
    found = json.loads(sfumato("certificate", "r.sfumato", "--format", "json").stdout)
    assert found["hashes"]["digest"] in text.stdout
    linked = json.loads(sfumato("certificate", "r.sfumato", "--format", "jsonld").stdout)
    assert linked["@type"] == "sc:Dataset" and linked["identifier"].endswith(found["hashes"]["digest"])
    entry = yaml.safe_load(
        sfumato("certificate", "r.sfumato", "--format", "registry", "--with", "curator=A = B").stdout
    )
    assert entry["deployment"]["basic"]["data_curators"] == ["A = B"]
    assert sfumato("certificate", "r.sfumato", "-o", "c.txt").returncode == 0
    assert (tmp_path / "c.txt").read_text() == text.stdout


def test_what_makes_no_sense_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_table()
    release()
    refused(sfumato("certificate", "r.sfumato", "--with", "curator"), "NAME=VALUE")
    refused(sfumato("certificate", "r.sfumato", "--with", "epsilon=0.1"), "it takes curator")
    refused(sfumato("certificate", "missing.sfumato"), "cannot open")
