"""Texts: files of them, tokenizers, and the token ids that a model sees."""
