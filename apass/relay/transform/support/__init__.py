"""Typed pass decorators, remarks and statistics, shared by the Relay passes."""
