"""Release files under fire: thousands of mutants opened in a child whose memory and time are limited.

The mutants are made from real releases, always the same ones, in five ways: bytes damaged, zip headers edited, the
manifest edited or the Parquet member damaged with every digest made to fit, and forgeries made by hand. Opening must
end in a release or in a ReleaseFileError; asking a release that did open must end in an answer or a typed error.

Run as a script this file is the child: `python test_fire_files.py FOLDER START STOP`.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import pickle
import random
import resource
import struct
import subprocess
import sys
import time
import warnings
import zipfile
import zlib
from pathlib import Path

import pytest

MEMORY = 3 * 2**30  # of address space; the child itself maps about 1 GB before it opens anything
SECONDS_PER_FILE = 20
BATCH = 5000
TABLE_SCHEMAS = {
    "dense": {"type": "category", "values": ["a", "b", "c"]},
    "sparse": {"type": "integer", "lower": 0, "upper": 999},
}


def make_seeds(folder: Path) -> None:
    """One release of each kind, as the product writes it."""
    import numpy as np
    import pyarrow as pa

    from sfumato.publishing.publish import release
    from sfumato.schema import Schema

    for name, axis in TABLE_SCHEMAS.items():
        fields = {
            "dataset": name,
            "privacy_unit": "row",
            "budget": {"epsilon": 9},
            "attributes": {"g": axis, "x": {"type": "number", "lower": 0, "upper": 8, "bins": 4}},
            "measures": {"m": {"lower": -5, "upper": 5, "step": "0.25"}},
        }
        group = np.array(["a", "b", "c"])[np.arange(900) % 3] if name == "dense" else np.arange(900) % 6
        table = pa.table({"g": group, "x": np.arange(900) % 8.0, "m": np.ones(900)})
        how = "cells" if name == "dense" else "sparse-cells"
        made = release(table, Schema.from_dict(fields), 9, mechanism=how, ledger=folder / "ledger.sqlite")
        made.save(folder / f"{name}.seed")


def take_apart(data: bytes) -> dict[str, bytes]:
    import io

    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def pack(members: dict[str, bytes], mode: int = 0o100644) -> bytes:
    """A zip as Sfumato lays it out, around anything; written out here, so that it shares no code with the reader."""
    body = directory = b""
    for name, data in members.items():
        raw, crc, start = name.encode(), zlib.crc32(data), len(body)
        body += struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 33, crc, len(data), len(data), len(raw), 0) + raw
        body += data
        fields = (0x0314, 20, 0, 0, 0, 33, crc, len(data), len(data), len(raw), 0, 0, 0, 0, mode << 16, start)
        directory += struct.pack("<4s6H3L5H2L", b"PK\1\2", *fields) + raw
    ending = (0, 0, len(members), len(members), len(directory), len(body), 0)
    return body + directory + struct.pack("<4s4H2LH", b"PK\5\6", *ending)


def spell(content: dict) -> bytes:
    """The manifest with its digest, in the spelling the reader insists on; the schema keeps its order."""

    def ordered(value):
        if isinstance(value, dict):
            return {key: ordered(value[key]) for key in sorted(value)}
        return [ordered(item) for item in value] if isinstance(value, list) else value

    def raw(fields):
        kept = {key: fields[key] if key == "schema" else ordered(fields[key]) for key in sorted(fields)}
        return (json.dumps(kept, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")

    content = {key: value for key, value in content.items() if key != "digest"}
    return raw({**content, "digest": hashlib.sha256(raw(content)).hexdigest()})


def forge(content: dict, body: bytes) -> bytes:
    """A file in which size, checksum, sha256 and digest all fit."""
    member = content.get("members", {}).get("cells") if isinstance(content.get("members"), dict) else None
    if isinstance(member, dict):
        member["sha256"], member["bytes"] = hashlib.sha256(body).hexdigest(), len(body)
    return pack({"manifest.json": spell(content), "cells.parquet": body})


def damage(data: bytes, draw: random.Random) -> bytes:
    """Bits flipped, bytes set, cut out, put in, spliced from elsewhere, or everything after a place cut off."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 4])):
        at, to, size = draw.randrange(len(changed) + 1), draw.randrange(len(changed) + 1), draw.choice([1, 2, 4, 8, 40])
        match draw.randrange(8):
            case 0 | 1 | 2:
                at = min(at, len(changed) - 1) if changed else 0
                changed[at : at + 1] = bytes([(changed[at] if changed else 0) ^ (1 << draw.randrange(8))])
            case 3:
                changed[at : at + size] = draw.choice([b"\0", b"\xff", b"\x7f", b"\x80"]) * size
            case 4:
                del changed[at : at + size]
            case 5:
                changed[at:at] = draw.randbytes(size)
            case 6:
                changed[at : at + size] = changed[to : to + size]
            case 7 if draw.random() < 0.3:
                del changed[at:]
    return bytes(changed)


def edit_headers(data: bytes, draw: random.Random) -> bytes:
    """Fields of the zip's headers replaced by small, large and negative numbers."""
    changed = bytearray(data)
    marks = [i for i in range(len(data) - 4) if data[i : i + 2] == b"PK" and data[i + 2 : i + 4] in (b"\1\2", b"\5\6")]
    marks += [0, data.find(b"PK\3\4", 4)]
    for _ in range(draw.choice([1, 2, 3])):
        at = draw.choice(marks) + draw.randrange(2, 46)
        wide = draw.choice([1, 2, 4])
        value = draw.choice([0, 1, 2, 8, 12, 0xFF, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, len(data), draw.randrange(2**32)])
        changed[at : at + wide] = (value % 256**wide).to_bytes(wide, "little")
    return bytes(changed)


ODD_VALUES = [
    None, True, False, 0, 1, -1, 2, 2**31, 2**53, 2**62, 2**63, -(2**63), 10**99, 10**101, 0.5, 1e308, -0.0,
    "", "a", "0", "1/2", "-1", "1/0", "1e9", "NaN", "9" * 90, "9" * 200, "../../etc/x", "/", "cells", "count", "\u0000",
    "\ud800", "é" * 50, "x" * 5000, [], [[]], {}, {"a": {}}, [1, "a", None], {"type": "integer"}, "row", "sparse-cube",
    {"type": "integer", "lower": 0, "upper": 10**18}, {"type": "number", "lower": 0, "upper": 1e300, "bins": 10**9},
    {"lower": 0, "upper": "1e300", "step": "1e-300"}, float("nan"), float("inf"),
]  # fmt: skip


def edit_manifest(content: dict, draw: random.Random) -> dict:
    """Values replaced, removed, renamed, copied over others, at any depth."""
    content = copy.deepcopy(content)
    for _ in range(draw.choice([1, 1, 2, 3])):
        node, path = content, 0
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = draw.choice(keys)
            if isinstance(node[key], dict | list) and node[key] and draw.random() < 0.8 and path < 12:
                node, path = node[key], path + 1
                continue
            match draw.randrange(9):
                case 0:
                    del node[key]
                case 1 if isinstance(node, dict):
                    node[str(draw.choice(ODD_VALUES))[:50]] = node.pop(key)
                case 2 if isinstance(node, list):
                    node.append(copy.deepcopy(node[key]))
                case 3:
                    node[key] = copy.deepcopy(node[draw.choice(keys)]) if len(str(node)) < 10**5 else 0
                case 4 if isinstance(node[key], int):
                    node[key] += draw.choice([-1, 1, 7, 2**40])
                case 5 if isinstance(node[key], str):
                    node[key] = damage(node[key].encode("utf-8", "ignore"), draw).decode("utf-8", "ignore")
                case _:
                    node[key] = copy.deepcopy(draw.choice(ODD_VALUES))
            break
    return content


def mutant(number: int, seeds: list[bytes]) -> bytes:
    """Mutant `number`: which kind follows from the number, so that every batch has all kinds."""
    draw = random.Random(number)  # which bytes are changed: no noise, no privacy
    data = seeds[number // 7 % len(seeds)]
    kind = number % 7
    if kind == 0:
        return damage(data, draw)
    if kind == 1:
        return edit_headers(data, draw)
    parts = take_apart(data)
    content, body = json.loads(parts["manifest.json"]), parts["cells.parquet"]
    if kind in (2, 3):
        return forge(edit_manifest(content, draw), body)
    if kind == 4:
        return pack({"manifest.json": damage(parts["manifest.json"], draw), "cells.parquet": body})
    changed = damage(body, draw)
    if kind == 5 and draw.random() < 0.5:
        content = edit_manifest(content, draw)
    return forge(content, changed)


def try_to_open(path: Path, data: bytes) -> str:
    """'refused', 'opened' or what went wrong."""
    from sfumato.errors import ReleaseFileError, SfumatoError
    from sfumato.releases.release import Release

    path.write_bytes(data)
    warnings.simplefilter("ignore")  # a forger may claim noise of 10^99, and intervals overflow to infinity
    try:
        found = Release.load(path)
    except ReleaseFileError as error:
        return (
            "refused" if str(error).isprintable() and len(str(error)) < 1500 else f"unfit message {str(error)[:99]!r}"
        )
    except BaseException as error:
        return f"load: {type(error).__name__}: {error}"[:300]
    try:
        found.query("SELECT COUNT(*) AS n FROM release").records()
        assert repr(found)
    except SfumatoError:
        return "opened, not answered"
    except BaseException as error:
        return f"query: {type(error).__name__}: {error}"[:300]
    return "opened"


def child(folder: Path, start: int, stop: int) -> None:
    """Open mutants one after another under limits, and say what came of each."""
    seeds = [path.read_bytes() for path in sorted(folder.glob("*.seed"))]
    import pyarrow.parquet  # noqa: F401 (mapped before the limit is set)

    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    path = folder / f"mutant-{start}.sfumato"
    counts: dict[str, int] = {}
    slowest = 0.0
    for number in range(start, stop):
        try:
            data = mutant(number, seeds)
        except (ValueError, UnicodeError, OverflowError):  # a mutant that could not be written as JSON at all
            counts["not made"] = counts.get("not made", 0) + 1
            continue
        begun = time.process_time()
        # A limit on processor time for each file: SIGXCPU ends the child, and the parent sees which file it was.
        used = int(time.process_time()) + SECONDS_PER_FILE
        resource.setrlimit(resource.RLIMIT_CPU, (used, resource.RLIM_INFINITY))
        sys.stderr.write(f"\n{number}")
        sys.stderr.flush()
        found = try_to_open(path, data)
        slowest = max(slowest, time.process_time() - begun)
        if found not in ("refused", "opened", "opened, not answered"):
            found = f"{number} {found}"
        counts[found] = counts.get(found, 0) + 1
    path.unlink(missing_ok=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"counts": counts, "slowest": slowest, "peak": peak}))


def open_all(folder: Path, total: int, first: int = 0) -> dict:
    """Run children over the mutants, one after another, and add up what they say."""
    totals: dict = {"counts": {}, "slowest": 0.0, "peak": 0}
    for start in range(first, first + total, BATCH):
        stop = min(start + BATCH, first + total)
        command = [sys.executable, __file__, str(folder), str(start), str(stop)]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
        assert run.returncode == 0, (run.returncode, run.stderr[-300:])  # the last number is the file it died on
        said = json.loads(run.stdout)
        for key, count in said["counts"].items():
            totals["counts"][key] = totals["counts"].get(key, 0) + count
        totals["slowest"] = max(totals["slowest"], said["slowest"])
        totals["peak"] = max(totals["peak"], said["peak"])
    return totals


@pytest.fixture(scope="module")
def seeds(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("seeds")
    make_seeds(folder)
    return folder


def test_mutants_end_in_typed_errors(seeds, full):
    """1,500 mutants; 100,000 in full."""
    total = 100_000 if full else 1500
    found = open_all(seeds, total)
    if full:
        print(f"\nfiles: {total:,} mutants, {found}")
    harmless = {"refused", "opened", "opened, not answered", "not made"}
    assert set(found["counts"]) <= harmless, found
    assert found["counts"]["refused"] > 0.7 * total
    assert found["counts"]["opened"] > 0  # deeper checks were reached: some mutants are releases
    assert found["counts"].get("not made", 0) < total / 20


# Forgeries by hand


class Canary:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.write_text, (self.path, "sang"))


@pytest.fixture
def parts(seeds):
    return take_apart((seeds / "dense.seed").read_bytes())


def refuse(tmp_path: Path, data: bytes) -> None:
    begun = time.process_time()
    assert try_to_open(tmp_path / "forged.sfumato", data) == "refused"
    assert time.process_time() - begun < 5  # seconds of processor time


def test_the_forger_of_these_tests_can_write_a_valid_file(tmp_path, parts):
    assert try_to_open(tmp_path / "f", forge(json.loads(parts["manifest.json"]), parts["cells.parquet"])) == "opened"


def test_pickles_are_never_loaded(tmp_path, parts):
    canary = tmp_path / "canary"
    content = json.loads(parts["manifest.json"])
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        song = pickle.dumps(Canary(canary), protocol)
        refuse(tmp_path, song)
        refuse(tmp_path, forge(copy.deepcopy(content), song))
        refuse(tmp_path, forge(copy.deepcopy(content), b"PAR1" + song + b"PAR1"))
        for name in ("cells.pkl", "data.pickle", "extra.parquet", "__reduce__", "manifest.pkl"):
            refuse(tmp_path, pack({**parts, name: song}))
        refuse(tmp_path, pack({**parts, "manifest.json": song}))
    assert not canary.exists()
    pickle.loads(song)
    assert canary.exists()  # the canary can sing


@pytest.mark.parametrize(
    "name",
    ["../evil.parquet", "/tmp/evil.parquet", "..\\evil.parquet", "C:evil.parquet", "a/../../b.parquet",
     "cells.parquet/", "CON.parquet", "cells.parquet\x00.txt", "./cells.parquet", "~/x.parquet", "é.parquet", "a" * 300,
     "", "..", "."],
)  # fmt: skip
def test_names_that_lead_elsewhere(tmp_path, parts, name):
    before = set(tmp_path.rglob("*"))
    refuse(tmp_path, pack({**parts, name: b"evil"}))
    refuse(tmp_path, pack({"manifest.json": parts["manifest.json"], name: parts["cells.parquet"]}))
    content = json.loads(parts["manifest.json"])
    content["members"]["cells"]["file"] = name
    refuse(tmp_path, pack({"manifest.json": spell(content), name: parts["cells.parquet"]}))
    assert set(tmp_path.rglob("*")) - before == {tmp_path / "forged.sfumato"}


def test_links_devices_and_folders_inside(tmp_path, parts):
    for mode in (0o120777, 0o40755, 0o20666, 0o60666, 0o10666, 0o140777, 0o104755, 0):
        refuse(tmp_path, pack(parts, mode))
        refuse(tmp_path, pack({**parts, "cells.parquet": b"/etc/passwd"}, mode))


def test_bombs_and_footers_that_lie(tmp_path, parts):
    content = json.loads(parts["manifest.json"])
    body = parts["cells.parquet"]
    for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path = tmp_path / "bomb"
        with zipfile.ZipFile(path, "w", compression) as file:
            file.writestr("manifest.json", parts["manifest.json"])
            file.writestr("cells.parquet", bytes(20 * 2**20))
        refuse(tmp_path, path.read_bytes())
    footer = int.from_bytes(body[-8:-4], "little")
    for lie in (0, 1, footer - 1, footer + 1, 2**31 - 1, 2**31, 2**32 - 1, len(body), len(body) - 12):
        refuse(tmp_path, forge(copy.deepcopy(content), body[:-8] + struct.pack("<L", lie % 2**32) + b"PAR1"))
    for rows in (0, 1, 11, 13, 2**20, 2**40, 2**61):
        edited = copy.deepcopy(content)
        edited["members"]["cells"]["rows"] = rows
        refuse(tmp_path, forge(edited, body))
    # A footer whose numbers are replaced by large ones, one at a time: varints of ten bytes in place of one.
    start = len(body) - 8 - footer
    for at in range(start, len(body) - 8):
        swollen = body[:at] + b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + body[at + 1 :]
        size = struct.pack("<L", footer + 8)
        outcome = try_to_open(tmp_path / "f", forge(copy.deepcopy(content), swollen[:-8] + size + b"PAR1"))
        assert outcome in ("refused", "opened"), (at, outcome)


def test_json_that_says_things_twice_or_is_no_json(tmp_path, parts):
    raw, body = parts["manifest.json"], parts["cells.parquet"]
    content = json.loads(raw)

    def with_manifest(text: bytes) -> None:
        refuse(tmp_path, pack({"manifest.json": text, "cells.parquet": body}))

    for key in content:
        doubled = raw.replace(
            b'  "' + key.encode() + b'":', b'  "' + key.encode() + b'": 1,\n  "' + key.encode() + b'":', 1
        )
        assert doubled != raw
        with_manifest(doubled)
    for number in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"9" * 5000, b"0x10", b"1_0", b"01", b"+1"):
        with_manifest(raw.replace(b'"version": 2', b'"version": ' + number))
    for deep in (25, 1000, 10**5):
        with_manifest(raw.replace(b'"version": 2', b'"version": ' + b"[" * deep + b"]" * deep))
        with_manifest(raw.replace(b'"version": 2', b'"version": ' + b'{"a":' * deep + b"1" + b"}" * deep))
    for text in (b"", b"null", b"[]", b"{}", b"\xff\xfe", b"\xef\xbb\xbf" + raw, raw + b" ", raw[:-1], b"\0" * 100):
        with_manifest(text)
    with_manifest(b" " * (2**20 + 1))
    with_manifest(raw.decode().encode("utf-16"))


def test_huge_claims(tmp_path, parts):
    """A schema of 10^18 cells and more, budgets and scales of many digits: refused or opened, at once."""
    content, body = json.loads(parts["manifest.json"]), parts["cells.parquet"]
    for upper in (10**6, 10**12, 10**18, 2**63, 10**90):
        edited = copy.deepcopy(content)
        edited["schema"]["attributes"]["g"] = {"type": "integer", "lower": 0, "upper": upper}
        refuse(tmp_path, forge(edited, body))
    for bins in (10**6, 10**9, 10**18, 10**90):
        edited = copy.deepcopy(content)
        edited["schema"]["attributes"]["x"]["bins"] = bins
        refuse(tmp_path, forge(edited, body))
    for axes in (30, 300, 3000):
        edited = copy.deepcopy(content)
        axis = {"type": "integer", "lower": 0, "upper": 99}
        edited["schema"]["attributes"] = {f"a{i}": axis for i in range(axes)}
        refuse(tmp_path, forge(edited, body))
    edited = copy.deepcopy(content)
    edited["members"] |= {f"m{i}": edited["members"]["cells"] for i in range(100)}
    refuse(tmp_path, forge(edited, body))


SCALES = [10**60, f"1/{10**98}", "1/1000000", 2**50, 2**50 + 1, 10**98, f"{10**98}/7"]


@pytest.mark.parametrize("scale", SCALES)
def test_noise_that_sfumato_cannot_draw(tmp_path, parts, scale):
    """Refused, or opened and answered; never an error of another kind when a query is asked."""
    content, body = json.loads(parts["manifest.json"]), parts["cells.parquet"]
    for statistic in content["statistics"]:
        statistic["noise"]["scale"] = str(scale)
    assert try_to_open(tmp_path / "f", forge(content, body)) in ("refused", "opened", "opened, not answered")


if __name__ == "__main__":
    child(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
