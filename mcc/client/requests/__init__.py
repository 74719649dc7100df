"""The requests of the client by what they are about: method, path, query and body, and how the answer is read."""
