"""What a loop written by hand samples with."""
