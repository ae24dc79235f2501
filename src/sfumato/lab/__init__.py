"""The laboratory: the privacy audit, reproductions of papers, and single-purpose mechanisms that `auto` never takes."""
