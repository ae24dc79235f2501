"""Sums of a measure by region: adaptive choice of tables, hierarchical model of averages, posterior."""
