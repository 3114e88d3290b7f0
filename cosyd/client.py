"""What a program that uses cosyd's results imports. See docs/subscribing.md.

::

    from cosyd.client import AsrFinal, Client

    with Client() as client:
        for message in client:
            if isinstance(message, AsrFinal):
                print(message.text)
"""

from cosyd.errors import ControlError, CosydError, PublishError
from cosyd.publish.client import AsyncClient, Client
from cosyd.publish.control_client import ControlClient
from cosyd.publish.curve import ClientKeys
from cosyd.publish.messages import (
    DAEMON,
    AnyMessage,
    AsrFinal,
    AsrPartial,
    Backend,
    Device,
    Doa,
    Health,
    Level,
    Message,
    State,
    Vad,
    Wake,
    Word,
)
from cosyd.publish.session import default_endpoints

__all__ = [
    "DAEMON",
    "AnyMessage",
    "AsrFinal",
    "AsrPartial",
    "AsyncClient",
    "Backend",
    "Client",
    "ClientKeys",
    "ControlClient",
    "ControlError",
    "CosydError",
    "Device",
    "Doa",
    "Health",
    "Level",
    "Message",
    "PublishError",
    "State",
    "Vad",
    "Wake",
    "Word",
    "default_endpoints",
]
