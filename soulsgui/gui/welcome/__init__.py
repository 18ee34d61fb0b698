"""The first page anybody sees."""
