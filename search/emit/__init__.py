"""From tables and templates to C, and its installation."""
