"""Services: processes that are started, watched, started again and ended, and the logs they write."""
