"""Publications derived from a release file: report, certificate, comparison with another release."""
