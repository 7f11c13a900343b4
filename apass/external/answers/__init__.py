"""Answers of services and helpers: recorded in a file, and given again."""
