"""Parts that the pages are made of."""
