"""The page of the logs."""
