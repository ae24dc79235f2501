"""The workflow that publishes a version: nothing but its last job may, and its own steps do what they say."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from sfumato.version import __version__

ROOT = Path(__file__).parent.parent
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
JOBS = WORKFLOW["jobs"]


def test_only_the_last_job_may_publish_and_it_runs_nothing_of_the_repository():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert [name for name, job in JOBS.items() if "permissions" in job] == ["publish"]
    assert JOBS["publish"]["environment"] == "release"
    assert all("uses" in step and "checkout" not in step["uses"] for step in JOBS["publish"]["steps"])


def test_what_is_published_was_checked_and_built_before():
    assert (JOBS["publish"]["needs"], JOBS["build"]["needs"]) == ("build", "check")
    assert [step["run"] for step in JOBS["check"]["steps"] if "run" in step] == ["bash .ci/run"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    made = [
        step["run"].removeprefix("make ") for step in JOBS["build"]["steps"] if step.get("run", "").startswith("make")
    ]
    assert made == ["dist"] and "dist" in targets


def test_no_secret_is_kept():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "secrets." not in text


@pytest.mark.parametrize(("tag", "code"), [(f"v{__version__}", 0), ("v99.0.0", 1), (__version__, 1), ("", 1)])
def test_a_tag_that_is_not_the_version_stops_it(tag, code):
    (step,) = [one["run"] for one in JOBS["build"]["steps"] if one.get("name") == "The tag is the version"]
    done = subprocess.run(["sh", "-c", step], cwd=ROOT, env=os.environ | {"GITHUB_REF_NAME": tag}, check=False)
    assert done.returncode == code
