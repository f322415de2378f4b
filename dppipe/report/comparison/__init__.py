"""Runs side by side: read, put together by setting, ranked where their epsilons compare, shown."""
