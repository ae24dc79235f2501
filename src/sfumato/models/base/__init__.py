"""What every mechanism is: its description, options, and the way from measurements to a fit."""
