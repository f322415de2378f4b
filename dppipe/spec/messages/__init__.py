"""Problems of a spec in words: what was expected, what was found, and what to do."""
