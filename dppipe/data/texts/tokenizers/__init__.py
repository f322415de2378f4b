"""Tokenizers: from a text to token ids, by public rules alone."""
