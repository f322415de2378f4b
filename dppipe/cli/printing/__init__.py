"""What commands print: text that fits a terminal."""
