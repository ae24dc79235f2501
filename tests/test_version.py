"""What is said about extras works from where the package was installed."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from sfumato.version import install_command

WHEEL = {"url": "file:///tmp/w/sfumato-0.1.0-py3-none-any.whl", "archive_info": {}}
GIT = {"url": "https://example.org/s.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        (None, "pip install 'sfumato[excel]'"),
        ({"url": "file:///home/me/a%20b", "dir_info": {"editable": True}}, "pip install -e '/home/me/a b[excel]'"),
        ({"url": "file:///home/me/s", "dir_info": {}}, "pip install '/home/me/s[excel]'"),
        (WHEEL, "pip install 'sfumato[excel] @ file:///tmp/w/sfumato-0.1.0-py3-none-any.whl'"),
        (GIT, "pip install 'sfumato[excel] @ git+https://example.org/s.git@abc'"),
    ],
)
def test_an_extra_is_had_from_where_the_package_came(monkeypatch, note, expected):
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if note is None else json.dumps(note)

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed())
    assert install_command("excel") == expected


def test_from_its_sources_it_is_had_from_their_folder(monkeypatch):
    def nothing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", nothing)
    said = install_command("explorer")
    assert said.startswith("pip install -e ") and said.rstrip("'").endswith("[explorer]")
