"""Small private helpers shared by all packages."""
