"""Randomness: secret streams for the sampler and the noise, and the Gaussian draws themselves."""
