"""Results out, commands in: messages, journal, ZeroMQ sockets, and the client for who uses the results."""
