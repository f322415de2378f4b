"""Model inversion: what a trained model tells of a class, or of an attribute of one record."""
