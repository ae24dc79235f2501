"""Descriptions of mechanisms, their options and forecasts, and the release of any linear mechanism."""
