"""Halve and double each constant of docs/constants.md, and say what that does. `python benchmarks/constants.py`

    python benchmarks/constants.py --only models.tree split_prior.AROUND     some, by a part of their names
    python benchmarks/constants.py --json FILE       keep figures there, and leave out what it has already

Each value runs in a process of its own, in which the constant's assignment was replaced before Sfumato was imported
(constants_patched.py), on tables of its own and with the same noise for all values (constants_trials.py). Figures are
beside those of the value in use: the root mean squared error by kind of question, as a geometric mean over kinds and
trials, with its standard error by jackknife over releases; the largest change of one kind; how often 95 % intervals
held, in per cent, before and after; and their width.

    survives     error within 5 % for both values, held within 2 points beyond sampling error, width within 10 %
    sensitive    not so, by more than two standard errors of the error
    undecided    not so by less, or the standard error is above 5 %
    no answer    read, but all answers, or all figures of a plan, are the same to 1e-6
    said         the same, but the words of a plan are not
    not reached  no function that reads it ran, and nothing changed
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from constants_tried import TRIED, values_of

Answers = dict[str, dict[str, tuple[float, float, float, float]]]
ERROR, HELD, WIDTH, SAME = 1.05, 0.02, 1.10, 1e-6
WORDS = {"chosen", "said"}  # kinds that are compared by their keys
CLAIMS = {"right", "right of a part"}  # whose intervals are looked at: the error is that of a prediction, `wrong`
UNSURE = 0.05  # standard error of the error's logarithm, up to which a constant is said to survive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--seeds", type=float, default=1.0, help="times as many releases of each trial")
    asked = parser.parse_args()
    names = [name for name in TRIED if not asked.only or any(part in name for part in asked.only)]
    kept = json.loads(asked.json.read_text()) if asked.json and asked.json.exists() else {}
    plain: dict[str, Any] = {}
    for name in names:
        if name not in kept:
            kept[name] = tried(name, plain, asked.seeds)
            if asked.json:
                asked.json.write_text(json.dumps(kept, indent=1))
        print(line(name, kept[name]), flush=True)


def tried(name: str, plain: dict[str, Any], seeds: float) -> dict[str, Any]:
    """Figures of a constant at both other values; plain: answers at the value in use, by trial, added to."""
    trials = TRIED[name].trials
    missing = [trial for trial in trials if trial not in plain]
    if missing:
        answers = in_a_process(name, None, missing, seeds)
        if "failed" in answers:
            raise SystemExit(f"{missing}: {answers['failed']}")
        plain |= answers["trials"]
    found: dict[str, Any] = {"trials": trials, "values": []}
    for text in values_of(name):
        began = sum(os.times()[2:4])  # of children
        other = in_a_process(name, text, trials, seeds)
        if "failed" in other:
            figures: dict[str, Any] = {"failed": other["failed"]}
        else:
            figures = compared({trial: plain[trial] for trial in trials}, other["trials"]) | {"read": other["reads"]}
        found["values"].append({"value": text, "seconds": sum(os.times()[2:4]) - began, **figures})
    found["verdict"] = verdict(found["values"])
    return found


def in_a_process(name: str, text: str | None, trials: list[str] | tuple[str, ...], seeds: float) -> dict[str, Any]:
    """Answers of some trials with a constant at a value, from a child that imports Sfumato anew."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            answers = _run(name, text, trials, seeds)
        except BaseException as problem:
            traceback.print_exc()
            answers = {"failed": f"{type(problem).__name__}: {str(problem)[:200]}"}
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answers, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answers = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    return answers


def _run(name: str, text: str | None, trials: list[str] | tuple[str, ...], seeds: float) -> dict[str, Any]:
    from constants_patched import Patched

    patched = Patched(name, text)
    patched.patch()
    from constants_trials import LISTED, TRIALS

    found = {}
    for trial in trials:
        run, number = TRIALS[trial]
        found[trial] = [run(seed) for seed in range(number if trial in LISTED else max(2, round(seeds * number)))]
    return {"trials": found, "reads": patched.reads}


# -- figures


def compared(plain: Mapping[str, list[Answers]], other: Mapping[str, list[Answers]]) -> dict[str, Any]:
    """Error, intervals held and width of answers beside those of the value in use."""
    parts = [Part.by(trial, kind, plain[trial], other[trial]) for trial in plain for kind in _kinds(plain[trial])]
    ratios = {f"{part.trial}, {part.kind}": part.ratio for part in parts if part.compared}
    logs = [math.log(ratio) for ratio in ratios.values() if ratio > 0]
    far = max(ratios, key=lambda each: abs(math.log(max(ratios[each], 1e-12))), default="")
    before, after, unsure = _held([part for part in parts if len(part.held)])
    widths = [part.width for part in parts if math.isfinite(part.width)]
    words = [_said(plain[trial], other[trial], kind) for trial in plain for kind in WORDS]
    return {
        "error": math.exp(float(np.mean(logs))) if logs else 1.0,
        "standard error": _jackknife(parts),
        "farthest": [far, ratios.get(far, 1.0)],
        "held": [before, after, unsure],
        "width": math.exp(float(np.mean(np.log(widths)))) if widths else 1.0,
        "largest difference": max((part.difference for part in parts if part.kind not in WORDS), default=0.0),
        "plans that choose or say otherwise": [sum(word[0] for word in words), sum(word[1] for word in words)],
    }


class Part:
    """Answers of one kind of one trial, at both values: squares of errors, hits and widths by release."""

    def __init__(self, trial: str, kind: str, squares: np.ndarray, held: np.ndarray, widths: np.ndarray, off: float):
        self.trial, self.kind, self.squares, self.held, self.widths, self.difference = (
            trial,
            kind,
            squares,
            held,
            widths,
            off,
        )

    @classmethod
    def by(cls, trial: str, kind: str, plain: list[Answers], other: list[Answers]) -> Part:
        squares, held, widths, off = [], [], [], 0.0
        for one, two in zip(plain, other, strict=True):
            first, second = one.get(kind, {}), two.get(kind, {})
            keys = [key for key in first if key in second and all(map(math.isfinite, (first[key][0], second[key][0])))]
            off = off if len(keys) == len(first) == len(second) else math.inf
            if not keys:
                continue
            pair = np.array([[each[key] for key in keys] for each in (first, second)], dtype=np.float64)
            value, truth, low, high = np.moveaxis(pair, 2, 0)
            squares.append(np.mean((value - truth) ** 2, axis=1))
            size = np.maximum(np.nanmax(np.abs(pair[0]), axis=1, keepdims=True), 1e-9)
            off = max(off, float(np.nanmax(np.abs(pair[1] - pair[0]) / size)))
            bounded = np.isfinite(low).all(axis=0) & np.isfinite(high).all(axis=0)
            if bounded.any():
                within = (low - 1e-9 <= truth) & (truth <= high + 1e-9)
                held.append(within[:, bounded].mean(axis=1))
                widths.append((high - low)[:, bounded].mean(axis=1))
        return cls(trial, kind, *(np.array(each).reshape(-1, 2) for each in (squares, held, widths)), off)

    @property
    def compared(self) -> bool:
        return self.kind not in WORDS | CLAIMS and len(self.squares) > 0 and bool((self.squares.sum(axis=0) > 0).all())

    @property
    def ratio(self) -> float:
        before, after = self.squares.sum(axis=0)
        return math.sqrt(after / before)

    @property
    def width(self) -> float:
        before, after = self.widths.sum(axis=0) if len(self.widths) else (0.0, 0.0)
        return float(after / before) if before > 0 and after > 0 else math.nan


def _kinds(listed: list[Answers]) -> list[str]:
    return list(dict.fromkeys(kind for answers in listed for kind in answers))


def _jackknife(parts: list[Part]) -> float:
    """Standard error of the logarithm of the error's ratio, over releases; trials are independent."""
    variance, trials = 0.0, {part.trial for part in parts if part.compared}
    number = sum(part.compared for part in parts)
    for trial in trials:
        here = [part for part in parts if part.trial == trial and part.compared]
        releases = min(len(part.squares) for part in here)
        if releases < 2:
            continue
        left = []
        for out in range(releases):
            sums = [np.delete(part.squares, out, axis=0).sum(axis=0) for part in here]
            left.append(sum(0.5 * math.log(max(b, 1e-300) / max(a, 1e-300)) for a, b in sums) / number)
        variance += (releases - 1) / releases * float(((np.array(left) - np.mean(left)) ** 2).sum())
    return math.sqrt(variance)


def _held(parts: list[Part]) -> tuple[float, float, float]:
    """Shares of intervals that held, before and after, and the standard error of their difference over releases."""
    if not parts:
        return math.nan, math.nan, 0.0
    before, after = (float(np.mean([part.held[:, place].mean() for part in parts])) for place in (0, 1))
    spread = [
        np.var(part.held[:, 1] - part.held[:, 0], ddof=1) / len(part.held) for part in parts if len(part.held) > 1
    ]
    return before, after, math.sqrt(sum(spread)) / len(parts)


def _said(plain: list[Answers], other: list[Answers], kind: str) -> tuple[int, int]:
    """How many plans choose, or say, something else."""
    changed = sum(one.get(kind, {}).keys() != two.get(kind, {}).keys() for one, two in zip(plain, other, strict=True))
    return (changed, 0) if kind == "chosen" else (0, changed)


def verdict(values: list[dict[str, Any]]) -> str:
    """One of the words that the head of this file explains."""
    ran = [each for each in values if "failed" not in each]
    if not any(each["read"] for each in ran) and all(map(_same, ran)):
        return "not reached"
    if all(map(_same, ran)):
        return "said" if any(sum(each["plans that choose or say otherwise"]) for each in ran) else "no answer"
    if all(_survives(each) and each["standard error"] <= UNSURE for each in ran):
        return "survives"
    return "undecided" if all(_survives(each, doubt=2.0) for each in ran) else "sensitive"


def _same(figures: dict[str, Any]) -> bool:
    """Whether all answers are the same."""
    return figures["largest difference"] <= SAME and abs(figures["farthest"][1] - 1.0) <= SAME


def _survives(figures: dict[str, Any], doubt: float = 0.0) -> bool:
    """doubt: standard errors by which the error may be off its bound."""
    before, after, unsure = figures["held"]
    held = math.isnan(before) or abs(after - before) <= HELD + 2.0 * unsure
    error = abs(math.log(figures["error"])) <= math.log(ERROR) + doubt * figures["standard error"]
    return error and held and abs(math.log(figures["width"])) <= math.log(WIDTH)


def line(name: str, found: dict[str, Any]) -> str:
    """A constant with the figures of both values."""
    shown = [f"{name}  {found['verdict']}  ({', '.join(found['trials'])})"]
    for each in found["values"]:
        if "failed" in each:
            shown.append(f"    {each['value']:24} failed: {each['failed']}")
            continue
        (far, most), (before, after, unsure) = each["farthest"], each["held"]
        chosen, said = each["plans that choose or say otherwise"]
        shown.append(
            f"    {each['value']:24} error {each['error']:.3f} +- {each['standard error']:.3f}, {far} {most:.3f}; "
            f"held {100 * before:.1f} to {100 * after:.1f} +- {100 * unsure:.1f}; width {each['width']:.3f}; "
            f"differs {each['largest difference']:.1g}; read {each['read']}"
            + (f"; other choice {chosen}, other words {said}" if chosen or said else "")
        )
    return "\n".join(shown)


def preload() -> Iterator[str]:
    """Libraries that every child needs, so that only Sfumato is imported anew."""
    for name in ("scipy.special", "scipy.linalg", "scipy.optimize", "pyarrow", "sqlglot", "pydantic", "yaml", "duckdb"):
        try:
            __import__(name)
            yield name
        except ImportError:
            pass


if __name__ == "__main__":
    list(preload())
    main()
