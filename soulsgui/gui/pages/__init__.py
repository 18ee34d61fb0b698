"""The pages of the window: one file each, with its parts beside it."""
