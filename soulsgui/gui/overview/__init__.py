"""The page of the overview: services, the live curve, the clients, the last log lines."""
