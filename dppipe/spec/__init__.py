"""The spec: YAML with positions, strictly typed, and the registry of everything it can name."""
