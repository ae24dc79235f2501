"""Publish a private table once, safely; let anyone query it for ever, with honest error bars.

>>> import sfumato as sf
>>> schema = sf.Schema(dataset="survey", privacy_unit="row", attributes={"smoker": {"type": "boolean"}})
>>> schema.domain.size
2
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato.dbapi import connect as connect
    from sfumato.errors import SfumatoError as SfumatoError
    from sfumato.planner.plan import make_plan as plan
    from sfumato.public.certificate.record import certificate
    from sfumato.public.combination import combine
    from sfumato.public.comparison import compare
    from sfumato.public.report.report import report
    from sfumato.publishing.discover import discover
    from sfumato.publishing.publish import release as release
    from sfumato.releases.group_privacy import group_privacy
    from sfumato.releases.release import Release as Release
    from sfumato.releases.release import open_release as open  # noqa: A004
    from sfumato.schema import Schema as Schema

# Loaded when first used, so that the command line starts at once.
_PUBLIC = {
    "Release": ("sfumato.releases.release", "Release"),
    "Schema": ("sfumato.schema", "Schema"),
    "SfumatoError": ("sfumato.errors", "SfumatoError"),
    "certificate": ("sfumato.public.certificate.record", "certificate"),
    "combine": ("sfumato.public.combination", "combine"),
    "compare": ("sfumato.public.comparison", "compare"),
    "connect": ("sfumato.dbapi", "connect"),
    "discover": ("sfumato.publishing.discover", "discover"),
    "group_privacy": ("sfumato.releases.group_privacy", "group_privacy"),
    "open": ("sfumato.releases.release", "open_release"),
    "plan": ("sfumato.planner.plan", "make_plan"),
    "report": ("sfumato.public.report.report", "report"),
    "release": ("sfumato.publishing.publish", "release"),
}

__all__ = ["Release", "Schema", "SfumatoError", "__version__", "connect", "group_privacy", "open", "plan", "release"]
__all__ += ["certificate", "combine", "compare", "discover", "report"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        module, attribute = _PUBLIC[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names for completion after `sf.`, before any of them is loaded."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
