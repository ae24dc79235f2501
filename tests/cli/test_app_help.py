"""What the command line says about itself."""

from __future__ import annotations

from running import sfumato

from sfumato.cli.release import NAMES, ONLY_THE_WORKLOAD
from sfumato.mechanisms import MECHANISMS
from sfumato.planner.forecast import QUERY_BY_QUERY


def test_the_help_of_release_names_every_mechanism_and_auto():
    assert sorted(NAMES.split(", ")) == sorted(MECHANISMS)  # other tests take mechanisms out and put them back
    said = " ".join(sfumato("release", "--help").stdout.split())
    assert "auto" in said and NAMES in said


def test_no_line_of_the_list_of_commands_is_cut_short():
    _, commands = sfumato("--help").stdout.split("Commands:")
    assert "release" in commands and "..." not in commands


def test_what_answers_its_workload_only_is_the_same_for_plan_and_release():
    assert set(ONLY_THE_WORKLOAD) == set(QUERY_BY_QUERY) <= set(MECHANISMS)
