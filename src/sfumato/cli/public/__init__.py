"""What the public sees of a release besides its answers: certificate, signature, comparison, report."""
