"""The kinds that a spec can name: families, the registry and plugin files."""
