"""The page of client mode: what the owner of this computer sees of its help."""
