"""Per-sample gradients: the forms in which they are held, and norms that are never too low."""
