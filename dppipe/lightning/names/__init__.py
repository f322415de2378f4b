"""Lightning's two import names, and base classes that work under both."""
