"""Policies in numpy, free of torch: what makes actions of weights and observations on a client."""
