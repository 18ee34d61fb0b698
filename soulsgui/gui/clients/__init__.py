"""The page of the clients, their table, and the dialogs it opens."""
