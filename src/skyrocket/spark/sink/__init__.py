"""The rooms behind the sink: rows become messages (`columns`, `rows`, `packing`), are sent (`sending`) or staged (`staging`), and
staged ones are committed with their batch (`committing`, with its `ledger`)."""
