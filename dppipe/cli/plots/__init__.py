"""Pictures that commands write to files."""
