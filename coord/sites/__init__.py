"""SITE.toml and what it is made from: its definition, its schema, maps and problems of others."""
