"""Ctrl-C, said in one line and told apart from failure by its exit code, in every command."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

EXIT_CODE = 130  # what shells give to a program that was interrupted


class Interrupted(Exception):
    """The user interrupted a command; the text says what that leaves behind, if anything.

    It is no KeyboardInterrupt any more, because versions of Typer differ in what they make of one.
    """

    def __init__(self, what_stays: str = "") -> None:
        super().__init__(f"interrupted; {what_stays}" if what_stays else "interrupted")


def left_behind(stop: KeyboardInterrupt) -> str:
    """What was noted on the interrupt on its way."""
    return "; ".join(getattr(stop, "__notes__", ()))


class Stoppable(TyperGroup):
    """The commands, each of which can be interrupted."""

    def make_context(self, *given: Any, **named: Any) -> Any:
        """Read the arguments."""
        try:
            return super().make_context(*given, **named)
        except KeyboardInterrupt as stop:
            raise Interrupted(left_behind(stop)) from None

    def invoke(self, *given: Any, **named: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(*given, **named)
        except KeyboardInterrupt as stop:
            raise Interrupted(left_behind(stop)) from None
