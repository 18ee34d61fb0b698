"""The settings: their schema, their layers, their files, and what is said when one is wrong."""
