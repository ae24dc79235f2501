"""What several mechanisms do in the same way, and parts of the long ones."""
