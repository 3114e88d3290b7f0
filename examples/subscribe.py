"""Prints every final as it comes."""

from cosyd.client import AsrFinal, Client

with Client() as client:
    for message in client:
        if isinstance(message, AsrFinal):
            print(f"[{message.source} {message.start:8.2f} s] {message.text}")
