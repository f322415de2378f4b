"""What sections of a page are made of: HTML elements, and plots as SVG."""
