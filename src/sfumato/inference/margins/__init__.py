"""Tables of many attributes from their margins: estimating margins, joining them for a question, and the errors."""
