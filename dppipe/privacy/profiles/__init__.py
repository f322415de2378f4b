"""Privacy profiles of single events: delta as a function of every real epsilon."""
