"""The page of the runs: the library, and the chosen run with its tabs."""
