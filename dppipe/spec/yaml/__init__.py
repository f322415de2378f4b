"""YAML as plain data with places, read and written."""
