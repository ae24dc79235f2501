"""What was published and under which promise: a release without what one can ask of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sfumato.releases.contents.content import Content
from sfumato.releases.file.manifest import Guarantee


@dataclass(frozen=True, eq=False, repr=False)
class Publication:
    """A value that knows nothing of files or SQL, so that what writes files depends on it and not on the release."""

    content: Content
    mechanism: str
    guarantee: Guarantee
    private: bool
    receipt: dict[str, Any] | None = None
    published: Callable[[str], None] | None = None  # told the digest of the file when it is saved
