"""The printer of Relay's text format."""
