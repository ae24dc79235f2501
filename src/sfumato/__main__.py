"""Run the command line: python -m sfumato."""

from sfumato.cli import command

if __name__ == "__main__":
    command()
