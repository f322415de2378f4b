"""The numbers of a plan that takes steps: rates, bounds, noise, and the epsilon after each."""
