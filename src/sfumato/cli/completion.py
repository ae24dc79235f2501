"""Command `sfumato completion`: print a script for the shell's completion of commands, options and files."""

from __future__ import annotations

from enum import StrEnum

import typer


class Shell(StrEnum):
    """Supported shells."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Shell = typer.Argument(help="Your shell.", show_default=False)) -> None:
    """Print a script that makes your shell complete commands.

    In ~/.bashrc or ~/.zshrc: eval "$(sfumato completion bash)" (or zsh). In fish: sfumato completion fish | source.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    typer.echo(get_completion_script(prog_name="sfumato", complete_var="_SFUMATO_COMPLETE", shell=shell.value))


def prepare() -> None:
    """Make ready to answer the shell, which asks through a variable; no other call needs what this loads."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
