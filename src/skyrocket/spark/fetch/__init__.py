"""Reads a range of a queue from its broker into Arrow batches. This is the work of a task of the source.

range_reader     the loop: send pulls, receive responses, decode records, continue after failures
pull_window      which pulls are in flight, and what their responses change (pure)
pull_frames      encodes the pull requests; only three numbers differ between them
receive_buffer   what a socket delivered, and the responses in it
fast_path        takes all responses that hold exactly what their pulls asked for (pure, with a compiled twin)
record_batches   turns decoded rows into Arrow batches of the source's columns
connections      sockets to brokers, kept by the process
"""
