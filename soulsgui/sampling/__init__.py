"""A game PC's side: environments are stepped, samples are sent, weights come in."""
