"""Single-purpose mechanisms from papers, a folder each."""
