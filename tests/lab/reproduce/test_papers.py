"""Every paper has its page: claim, what we found, where; and what stands under "where" is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sfumato.cli import COMMANDS
from sfumato.lab.reproduce.studies import PAPERS

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "papers"


def rows(page: Path) -> list[list[str]]:
    found = [line.strip("|").split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in found]


def test_there_is_a_page_for_each_of_the_five_papers_and_no_other():
    assert sorted(page.stem for page in PAGES.glob("*.md")) == sorted(PAPERS)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_page_has_claims_with_findings_and_where_these_are(paper):
    page = PAGES / f"{paper}.md"
    header, *claims = rows(page)
    assert header == ["claim", "what we found", "where"] and len(claims) >= 9
    assert all(len(row) == 3 and all(row) for row in claims), [row for row in claims if len(row) != 3]
    assert f"`sfumato reproduce {paper}`" in page.read_text()


@pytest.mark.parametrize("paper", PAPERS)
def test_files_links_and_commands_of_a_page_are_there(paper):
    text = (PAGES / f"{paper}.md").read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (PAGES / target).exists(), target
    for said in re.findall(r"`([^`]+)`", text):
        words = said.split()
        if words[0] == "sfumato" and len(words) > 1:
            assert words[1] in COMMANDS, said
        elif words[0] == "python" or "/" in words[0]:
            assert (ROOT / words[words[0] == "python"]).exists(), said


def test_index_and_readme_lead_to_every_page():
    for paper in PAPERS:
        assert f"(papers/{paper}.md)" in (ROOT / "docs" / "README.md").read_text()
        assert f"(papers/{paper}.md)" in (ROOT / "docs" / "reproduction.md").read_text()
        assert f"(docs/papers/{paper}.md)" in (ROOT / "README.md").read_text()
