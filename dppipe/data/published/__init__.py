"""Two small datasets that come with dppipe; README.md here has their sources and licences."""
