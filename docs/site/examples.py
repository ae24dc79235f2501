"""For the site: examples in docstrings become blocks of code; as plain Markdown `>>>` would quote them three times.

A list below one would even be taken for a link: `[x for x in y]` and then `[1, 2]`.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.M)  # from its first prompt to the next empty line


class Examples(griffe.Extension):
    """Fence every example of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub("```pycon\n\\g<0>\n```", obj.docstring.value)
