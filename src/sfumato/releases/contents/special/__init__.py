"""What mechanisms of one purpose publish, a file for each kind and for how it is kept."""
