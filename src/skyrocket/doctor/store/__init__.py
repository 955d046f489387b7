"""Facts and rules of a store directory, read without a broker: ours or Apache's."""
