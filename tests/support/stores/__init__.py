"""Stores and their disks: messages, samples, and writers to be killed."""
