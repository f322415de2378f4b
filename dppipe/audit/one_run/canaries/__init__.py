"""The canaries of an audit: reserved coordinates, inputs, and a single one of a known world."""
