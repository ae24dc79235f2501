"""What all commands have in common."""
