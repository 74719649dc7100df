"""Tools of MCP servers: connections, definitions that were pinned, results as material. The SDK is loaded when used."""
