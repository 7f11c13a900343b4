"""Worker processes: the pool, the program of a worker, and process groups."""
