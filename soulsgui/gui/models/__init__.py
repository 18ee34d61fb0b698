"""What tables and panes show: clients and log lines."""
