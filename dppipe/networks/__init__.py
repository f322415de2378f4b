"""Networks that built-in models build: ordinary torch modules, each of whose rows stands alone."""
