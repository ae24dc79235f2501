"""The papers' tables and figures again, theirs beside ours: `sfumato reproduce`."""
