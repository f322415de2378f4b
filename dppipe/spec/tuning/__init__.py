"""The `tune` block: the candidates of a private search, how often it repeats, and its score."""
