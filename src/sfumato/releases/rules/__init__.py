"""Rules as SQL conditions: what a model that is one condition says of cells and of rows."""
