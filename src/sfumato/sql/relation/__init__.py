"""Statements whose numbers are made of several groups: windows, joins, aggregates of aggregates.

A relation is a table of rows whose cells are public values or forms of counts. So LAG, SUM(n) OVER, JOIN and AVG(n) are
arithmetic of forms, with the noise that they share.
"""
