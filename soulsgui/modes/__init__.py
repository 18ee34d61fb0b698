"""Ways of using learning and playing together: the one place that joins `training` and `sampling`."""
