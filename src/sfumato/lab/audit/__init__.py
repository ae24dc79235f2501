"""The privacy audit: lower bounds on epsilon, exact losses, replays, calibration, and mutants that it must catch."""
