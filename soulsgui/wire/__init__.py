"""The contract between the processes: keys, messages, codec, connection, control API."""
