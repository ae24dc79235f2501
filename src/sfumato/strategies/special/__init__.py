"""What mechanisms of one purpose ask for; public, without data and without noise."""
