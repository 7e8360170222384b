"""Records in, static pages out: diagrams, formulas and text that open from disk without a server or a network."""
