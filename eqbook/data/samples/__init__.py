"""Small real samples that come with the package."""
