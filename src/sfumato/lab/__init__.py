"""The laboratory: the audit, the studies of papers, and mechanisms of one purpose that `auto` never takes."""
