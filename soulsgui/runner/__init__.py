"""The runner: supervises services and runs, keeps their library, and answers the control API."""
