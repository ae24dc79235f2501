"""The version of this package, and the command that installs its extras from the same origin."""

from __future__ import annotations

__version__ = "0.1.0"


def install_command(extra: str) -> str:
    """The command that installs an extra, from the origin of this package: a folder, a file, a repository.

    pip leaves a note of it beside the package (PEP 610); without one it came from an index.
    """
    import json
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    checkout = Path(__file__).parents[2]
    try:
        note = json.loads(distribution(__name__.partition(".")[0]).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):  # run from its sources
        note = (
            {"url": checkout.as_uri(), "dir_info": {"editable": True}} if (checkout / "pyproject.toml").exists() else {}
        )
    what, switch = f"sfumato[{extra}]", ""
    if "dir_info" in note:
        what = f"{url2pathname(urlsplit(note['url']).path)}[{extra}]"
        switch = "-e " if note["dir_info"].get("editable") else ""
    elif "vcs_info" in note:
        what += f" @ {note['vcs_info']['vcs']}+{note['url']}@{note['vcs_info']['commit_id']}"
    elif "url" in note:
        what += f" @ {note['url']}"
    return f"pip install {switch}{shlex.quote(what)}"
