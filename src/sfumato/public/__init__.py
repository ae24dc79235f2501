"""What readers of a release are shown: its report, certificate, and comparison with another."""
