"""What is said where nothing holds for every table."""

from __future__ import annotations

NONE = (
    "there is no guaranteed interval: answers of this release lean on more than what was measured for it; ask for "
    "typical intervals, or release with a mechanism that has guaranteed ones (docs/intervals.md)"
)
