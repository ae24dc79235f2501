"""What is said where nothing holds for every table."""

from __future__ import annotations

NONE = (
    "there is no guaranteed interval: this release was learned, and what was measured for it bounds no answer by "
    "itself; ask for the typical interval, or release with a mechanism that has one (docs/intervals.md)"
)
