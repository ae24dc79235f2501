"""Tables of answers: groups put together, and what SQL does with their rows."""
