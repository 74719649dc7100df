"""The page: one shell without data, and the scripts, styles and pictures that draw every address from the API."""
