"""The process opens no file but its releases and its own, whatever is asked of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import exploring

WATCHED = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv.pop(1))
from exploring import desk_for
import sfumato as sf
from starlette.testclient import TestClient
from sfumato.serve.web.serving import explorer
from sfumato.serve.web.requests import Shelf

shelf = Shelf.of([(path, sf.open(path)) for path in sys.argv[1:]])
client = TestClient(explorer(shelf, desk_for(shelf)), raise_server_exceptions=False)
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
statuses = []
for path in ("/", "/static/js/main.js", "/static/../../../etc/passwd", "/static/%2e%2e/app.py", "/api/releases/survey"):
    statuses.append(client.get(path).status_code)
for sql in ("SELECT sex, COUNT(*) FROM survey GROUP BY sex", "SELECT * FROM '/etc/passwd'", "COPY survey TO '/tmp/x'",
            "SELECT * FROM read_csv('/etc/passwd')", "ATTACH '/tmp/x.db'", "INSTALL httpfs"):
    statuses.append(client.post("/api/releases/survey/query", json={"sql": sql, "interval": "both"}).status_code)
client.post("/api/releases/survey/chart", json={"by": ["age", "sex"], "amount": "average", "of": "hours"})
client.post("/api/releases/%2fetc%2fpasswd/csv", json={"sql": "SELECT 1"})
print(json.dumps([statuses, opened]))
"""


def test_no_request_opens_a_file(releases):
    """Modules that are loaded late are Python's own files; nothing else is opened once the server runs."""
    command = [sys.executable, "-c", WATCHED, str(Path(exploring.__file__).parent), *map(str, releases)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    statuses, opened = json.loads(run.stdout.splitlines()[-1])
    assert statuses == [200, 200, 404, 404, 200, 200, 422, 422, 422, 422, 422]
    others = [path for path in opened if not path.endswith((".py", ".pyc", ".so")) and not path.isdigit()]
    assert others == []
