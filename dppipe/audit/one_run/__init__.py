"""The audit of a whole training from inside one run: canaries, coins, scores and bounds."""
