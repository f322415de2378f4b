"""What sections of a page are made of: HTML elements, plots as SVG, and the words they share."""
