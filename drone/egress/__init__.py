"""The network of sandboxed programs: a proxy process through which they reach the few hosts that they may."""
