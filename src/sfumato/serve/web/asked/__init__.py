"""What can be asked, and how it is said in SQL: charts, comparisons, filters; and how large a question is."""
