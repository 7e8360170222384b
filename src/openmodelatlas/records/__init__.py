"""Plain frozen records and their JSON schema. Imports nothing heavy; every other room may read it."""
