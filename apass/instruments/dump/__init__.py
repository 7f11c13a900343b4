"""The dump instruments, which write the IR after each pass to files."""
