"""Commands `sfumato keygen` and `sfumato sign`: sign a release with an Ed25519 key."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.query import RELEASE
from sfumato.cli.shared import QUIET


def keygen(
    key: Path | None = typer.Argument(
        None,
        metavar="KEY",
        help="The file for the private key. The public key goes to the same name with .pub.",
        show_default=False,
    ),
    out: Path | None = typer.Option(None, "-o", "--out", hidden=True),  # as it was called at first
    quiet: bool = QUIET,
) -> None:
    """Make a pair of Ed25519 keys: a private one to sign with and a public one to share. Overwrites no file."""
    from sfumato.cli.show import say
    from sfumato.releases.signature import make_keys

    named = [path for path in (key, out) if path is not None]
    if len(named) != 1:
        raise typer.BadParameter("name one file for the private key, such as `sfumato keygen office.key`")
    (path,) = named
    public, fingerprint = make_keys(path)
    say(f"{path}: your private key. Nobody else may see it; who has it can sign in your name.")
    say(f"{public}: the public key, {fingerprint}. Give it out where people know that it is yours.")


def sign(
    release: Path = RELEASE,
    key: Path = typer.Option(..., "--key", help="Your private key, from `sfumato keygen`.", show_default=False),
    quiet: bool = QUIET,
) -> None:
    """Sign a release. The signature goes to RELEASE.sig; the release itself does not change."""
    from sfumato.cli.show import say, say_kept
    from sfumato.releases.file.artifact import write_text
    from sfumato.releases.signature import sign_release, signature_beside

    signature = sign_release(release, key)
    beside = signature_beside(release)
    kept = write_text(beside, signature.text)
    say(f"{beside}: the signature of {release} by {signature.by}. Publish both files together.")
    say_kept(kept)
