"""Facts and rules of a machine that runs a broker: descriptors and the kernel's settings."""
