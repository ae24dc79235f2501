"""One archive for an outside reviewer of privacy: what is trusted, why, how it was attacked, what it leans on, hashes.

    python benchmarks/review_pack.py [-o review-pack.zip] [--audit MECHANISM ...] [--full] [--key office.key]
    python benchmarks/review_pack.py --check review-pack.zip [--key office.key.pub]

`make review-pack` audits every mechanism at full effort (`--full`), and all mutants, which takes long. `--audit
laplace` attacks one mechanism alone (`--audit none`: no audit; the pack says what was left out). A key of `sfumato
keygen` signs the pack: review-pack.zip.sig. `--check` compares every file with its hash, and the signature.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import subprocess
import sys
import uuid
import zipfile
from base64 import b64decode, b64encode
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ("privacy", "trust", "known-limits", "intervals", "nist-sp-800-226", "constants")
SIGNED = b"sfumato review pack, version 1\n"  # so that it is a signature of nothing else
SUMS = "SHA256SUMS"
STYLE = "body{max-width:52em;margin:2em auto;font:16px/1.5 system-ui,sans-serif;padding:0 1em}table{border-collapse:\
collapse}td,th{border:1px solid #bbb;padding:.2em .5em;text-align:left;vertical-align:top}code,pre{background:#f3f1ec}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--out", type=Path, default=Path("review-pack.zip"))
    parser.add_argument("--audit", nargs="+", default=[], metavar="MECHANISM", help="attack these alone, or none")
    parser.add_argument("--full", action="store_true", help="audit at full effort")
    parser.add_argument("--key", type=Path, help="private key to sign with; with --check, the public one")
    parser.add_argument("--check", type=Path, metavar="PACK")
    asked = parser.parse_args()
    if asked.check:
        return check(asked.check, asked.key)
    files = pages() | trusted() | {"sbom.cdx.json": as_json(bill_of_materials()), **audit(asked.audit, full=asked.full)}
    files["CONTENTS.md"] = contents(files).encode()
    files[SUMS] = "".join(f"{sha256(content)}  {name}\n" for name, content in sorted(files.items())).encode()
    with zipfile.ZipFile(asked.out, "w", zipfile.ZIP_DEFLATED) as pack:
        for name, content in sorted(files.items()):
            pack.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    if asked.key:
        sign(asked.out, asked.key)
    print(f"{asked.out}: {len(files)} files, {asked.out.stat().st_size:,} bytes{', signed' if asked.key else ''}")
    return 0


def trusted() -> dict[str, bytes]:
    """Files that docs/privacy.md lists as trusted, as they are, and how many lines they have."""
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| `([\w/]+\.py)` \| [\d,]+ \| .+ \|$", page[page.index("## What is trusted") :], re.M)
    files = {f"trusted/{name}": (ROOT / "src" / "sfumato" / name).read_bytes() for name in names}
    lines = {name: content.count(b"\n") for name, content in files.items()}
    core = sum(size for name, size in lines.items() if re.match(r"trusted/kernel/(?!reading/)", name))
    rows = "".join(f"{size:6,}  {name}\n" for name, size in sorted(lines.items()))
    head = f"{sum(lines.values()):,} lines in {len(lines)} files; {core:,} of them in the kernel without reading\n\n"
    return files | {"trusted/LINES.txt": (head + rows).encode()}


def pages() -> dict[str, bytes]:
    """Pages on privacy, one HTML file each, without scripts; links between them lead nowhere else."""
    from markdown_it import MarkdownIt

    marked, made = MarkdownIt("commonmark", {"html": False}).enable("table"), {}
    for name in PAGES:
        text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        body = marked.render(re.sub(rf"\]\(({'|'.join(PAGES)})\.md", r"](\1.html", text))
        head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title><style>{STYLE}</style>'
        made[f"pages/{name}.html"] = f"{head}\n{body}</html>\n".encode()
    return made


def audit(mechanisms: list[str], *, full: bool) -> dict[str, bytes]:
    """Report of the audit and of its mutants; says so where there was none."""
    if mechanisms == ["none"]:
        return {"audit.json": as_json({"run": False, "why": "left out by --audit none"})}
    command = [sys.executable, "-m", "sfumato", "audit", *mechanisms, *(["--full"] if full else []), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = {"run": True, "command": ["sfumato", *command[3:]], "exit_code": done.returncode}
    return {"audit.json": as_json(report | {"report": json.loads(done.stdout or "null"), "said": done.stderr[-2000:]})}


def bill_of_materials() -> dict[str, object]:
    """CycloneDX bill of what is installed here: name, version, licence, and who needs whom."""
    found = {canonical(one.metadata["Name"]): one for one in distributions()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ' '.join(map(reference, found.values())))}",
        "version": 1,
        "metadata": {"component": component(distribution("sfumato"), "application")},
        "components": [component(one, "library") for name, one in sorted(found.items()) if name != "sfumato"],
        "dependencies": [
            {"ref": reference(one), "dependsOn": sorted({reference(found[need]) for need in needs(one) & found.keys()})}
            for _, one in sorted(found.items())
        ],
    }


def component(one: Distribution, kind: str) -> dict[str, object]:
    licence = one.metadata.get("License-Expression") or one.metadata.get("License") or ""
    named = {"licenses": [{"license": {"name": licence}}]} if 0 < len(licence) < 100 and "\n" not in licence else {}
    identity = {"type": kind, "bom-ref": reference(one), "name": one.metadata["Name"], "version": one.version}
    return identity | {"purl": reference(one)} | named


def reference(one: Distribution) -> str:
    return f"pkg:pypi/{canonical(one.metadata['Name'])}@{one.version}"


def needs(one: Distribution) -> set[str]:
    """Names of what a distribution needs, extras left out."""
    wanted = [need for need in one.requires or [] if "extra ==" not in need]
    return {canonical(re.match(r"[\w.-]+", need)[0]) for need in wanted}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def contents(files: dict[str, bytes]) -> str:
    """Table of contents, and with what the pack was made."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    made = f"Commit {commit.strip() or 'unknown'}, Python {platform.python_version()}, {platform.platform()}."
    told = {
        "pages/": "proofs, attacks, limits, coverage of intervals, NIST SP 800-226, constants; one HTML each",
        "trusted/": "the code that a proof speaks of, with its lines",
        "audit.json": "what attacks on the mechanisms found, and which broken variants were caught",
        "sbom.cdx.json": "CycloneDX 1.5: everything that is installed, with versions",
        SUMS: "the hash of every file but itself; `sha256sum -c SHA256SUMS`",
    }
    rows = "".join(
        f"| `{name}` | {sum(f.startswith(name) for f in files) or 1} | {said} |\n" for name, said in told.items()
    )
    return (
        f"# Review pack of Sfumato\n\n{made}\n\n| what | files | |\n|---|---|---|\n{rows}\n"
        "Begin with pages/privacy.html and trusted/kernel/charge.py. Run it yourself: `sfumato audit --full`.\n"
    )


def sign(pack: Path, key: Path) -> None:
    """Write the signature of a pack beside it."""
    from sfumato.releases.signature import read_private

    private = read_private(key)
    signed = private.sign(SIGNED + hashlib.sha256(pack.read_bytes()).digest())
    public = private.public_key().public_bytes_raw()
    both = {"public_key": b64encode(public).decode(), "signature": b64encode(signed).decode()}
    Path(f"{pack}.sig").write_bytes(as_json(both))


def check(pack: Path, key: Path | None) -> int:
    """Compare every file with its hash, none more or less, and the signature with a public key; 1 where one differs."""
    from cryptography.exceptions import InvalidSignature

    from sfumato.releases.signature import read_public

    with zipfile.ZipFile(pack) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    stated = dict(reversed(line.split("  ", 1)) for line in files.pop(SUMS).decode().splitlines())
    wrong = sorted(name for name in stated.keys() | files.keys() if stated.get(name) != sha256(files.get(name, b"")))
    if key:
        try:
            signature = b64decode(json.loads(Path(f"{pack}.sig").read_text())["signature"])
            read_public(key).verify(signature, SIGNED + hashlib.sha256(pack.read_bytes()).digest())
        except (OSError, ValueError, KeyError, InvalidSignature):
            wrong.append("the signature")
    print(f"wrong: {', '.join(wrong)}" if wrong else f"{len(files)} files as they were packed")
    return 1 if wrong else 0


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def as_json(content: object) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


if __name__ == "__main__":
    sys.exit(main())
