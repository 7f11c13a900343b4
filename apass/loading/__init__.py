"""Code of others: entry points of installed plug-ins, and files that a user names."""
