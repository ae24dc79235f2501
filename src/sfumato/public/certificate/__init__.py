"""What a release promises, as records that programs read; derived from the file, never written into it."""
