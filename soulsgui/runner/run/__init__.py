"""One run of a server: its record, its services, its session, and who begins and ends it."""
