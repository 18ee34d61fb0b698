"""What tables and panes show: clients, runs, checkpoints, events, log lines."""
