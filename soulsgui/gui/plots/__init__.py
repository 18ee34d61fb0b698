"""The page of plots: any metrics of any runs, side by side and over each other."""
