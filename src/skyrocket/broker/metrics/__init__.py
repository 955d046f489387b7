"""What `/metrics` and `/readyz` say about a broker. Collectors read figures that exist, when somebody asks."""
