"""What axe-core complains about on a page: rules of WCAG 2.2, levels A and AA, and its best practices."""

from __future__ import annotations

from typing import Any


def complaints(page: Any) -> list[str]:
    """Each violated rule with the elements that violate it."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response
    assert len(found["passes"]) > 10, "axe-core looked at next to nothing"
    return [
        f"{one['id']} ({one['impact']}): {', '.join(' '.join(node['target']) for node in one['nodes'])}"
        for one in found["violations"]
    ]
