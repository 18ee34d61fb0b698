"""The form of settings, built from their schema."""
