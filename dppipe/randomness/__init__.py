"""Randomness: secret streams for the sampler and the noise, the draws, and private selection."""
