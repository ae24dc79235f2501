"""From cells to values: one file a kind of column, each drawing what the same schema reads back into the same cells."""
