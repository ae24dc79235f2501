"""The options that several commands share."""

import inspect
from pathlib import Path

import pytest
import typer
from running import sfumato

from sfumato.cli.input.file_options import Given, takes_file_options

OUT, FILE = typer.Option(Path("x")), typer.Option({})


def test_a_command_keeps_its_own_options_and_gets_the_others_together():
    @takes_file_options
    def command(table: str, out: Path = OUT, file: Given = FILE) -> None:
        """What it does."""
        seen.append((table, out, file))

    seen = []
    assert list(inspect.signature(command).parameters)[:2] == ["table", "out"] and command.__doc__ == "What it does."
    assert "file" not in inspect.signature(command).parameters
    app = typer.Typer()
    app.command()(command)
    app(["t.csv", "--delimiter", ";", "--file-format", "csv"], standalone_mode=False)
    table, out, file = seen[0]
    assert (table, out, file["delimiter"], file["format"], file["quote"]) == ("t.csv", Path("x"), ";", "csv", None)


@pytest.mark.parametrize("command", ["release", "check", "init"])
def test_every_command_that_reads_a_file_has_them(command):
    shown = sfumato(command, "--help").stdout
    for option in (
        "--delimiter",
        "--decimal",
        "--thousands",
        "--encoding",
        "--quote",
        "--columns",
        "--dates",
        "--sheet",
    ):
        assert option in shown
