"""People, their tokens and sign-ins, links that count once, what people prefer, and whose things are."""
