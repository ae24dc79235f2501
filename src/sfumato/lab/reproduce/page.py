"""A study as files: one self-contained page, and every picture as a file of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.lab.reproduce.exhibits import Exhibit, Study

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #2b2622; background: #fdfcf9; max-width: 62rem;
       margin: 2rem auto; padding: 0 1rem }
h1, h2, h3 { line-height: 1.2; font-weight: 600 } h2 { margin-top: 3rem } h3 { margin-top: 2.2rem }
h3 small { color: #6d645b; font-weight: 400 }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #e4ded5 }
th { border-bottom: 1px solid #2b2622; font-weight: 600 } .words { text-align: left }
figure { margin: 1rem 0 } svg { max-width: 100%; height: auto }
p { max-width: 46rem }
"""


def write(studies: Sequence[Study], folder: Path) -> Path:
    """Write index.html and the pictures into a folder; the page holds the pictures itself and needs no network."""
    page = folder / "index.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for study in studies:
            for exhibit in study.exhibits:
                for picture in exhibit.pictures:
                    (folder / f"{study.paper}-{picture.name}.svg").write_text(picture.svg, encoding="utf-8")
        page.write_text(_page(studies), encoding="utf-8")
    except OSError as error:
        raise SfumatoError(
            f"cannot write into {str(folder)!r}: {error.strerror}; name a folder that can be written with -o"
        ) from None
    return page


def _page(studies: Sequence[Study]) -> str:
    body = "\n".join(line for study in studies for line in _study(study))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>sfumato reproduce</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n<h1>The papers, theirs beside ours</h1>\n{body}\n</body></html>\n"
    )


def _study(study: Study) -> Iterator[str]:
    yield f'<h2 id="{escape(study.paper)}">{escape(study.title)}</h2>'
    for exhibit in study.exhibits:
        yield f"<h3>{escape(exhibit.title)} <small>{escape(exhibit.source)}</small></h3>"
        if exhibit.rows:
            yield _table(exhibit)
        for picture in exhibit.pictures:
            yield f"<figure>{picture.svg}</figure>"
        yield f"<p>{escape(exhibit.remark)}</p>"


def _table(exhibit: Exhibit) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        kinds = [' class="words"' if place in exhibit.left else "" for place in range(len(cells))]
        return "<tr>" + "".join(f"<{tag}{k}>{escape(c)}</{tag}>" for c, k in zip(cells, kinds, strict=True)) + "</tr>"

    return "<table>" + line(exhibit.headers, "th") + "".join(line(row, "td") for row in exhibit.rows) + "</table>"
