"""sfumato report, as a user calls it."""

from __future__ import annotations

from running import sfumato
from small_release import refused, release, write_small_table


def test_a_page_is_written_and_nothing_is_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_table()
    release()
    run = sfumato("report", "r.sfumato", "-o", "r.html")
    assert run.returncode == 0 and "MB, one file" in run.stdout
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")
    assert "kept as r.html.~1~" in sfumato("report", "r.sfumato", "-o", "r.html").stdout
    assert sfumato("report", "r.sfumato", "-o", "q.html", "-q", "--with", "curator=The Office").stdout == ""
    assert "The Office" in (tmp_path / "q.html").read_text(encoding="utf-8")


def test_refusals_are_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_table()
    release()
    refused(sfumato("report", "missing.sfumato", "-o", "r.html"), "cannot open")
    refused(sfumato("report", "r.sfumato", "-o", "."), "is a folder")
    refused(sfumato("report", "r.sfumato", "-o", "r.html", "--require-signature", "k.pub"), "cannot be read")
    refused(sfumato("report", "r.sfumato", "-o", "r.html", "--confidence", "7"), "confidence")
    assert not (tmp_path / "r.html").exists()
