"""What the command line says about itself."""

from __future__ import annotations

from running import sfumato

from sfumato.models import MECHANISMS


def test_the_help_of_release_names_every_mechanism_and_auto():
    said = " ".join(sfumato("release", "--help").stdout.split())
    assert "auto" in said and ", ".join(MECHANISMS) in said


def test_no_line_of_the_list_of_commands_is_cut_short():
    _, commands = sfumato("--help").stdout.split("Commands:")
    assert "release" in commands and "..." not in commands
