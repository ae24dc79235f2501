"""Commands of the laboratory, which the command line registers by name."""
