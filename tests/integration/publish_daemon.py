"""A daemon's publishing half as a process of its own, for ``publishing.Daemon``.

``python publish_daemon.py ROOT [JSON of the configuration]``: prints the addresses, then obeys lines on
standard input and answers each with a line:

``final TEXT``   publish a final, answer its seq      ``many COUNT SIZE RATE``   finals of SIZE bytes, paced
``partial TEXT`` publish a partial                    ``die TEXT``  killed between journalling and publishing
``rss``          answer the resident bytes            ``subscriptions``  answer their number

The end of the input ends it in order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil

from cosyd.config.paths import Paths
from cosyd.config.schema import Config
from cosyd.publish.control import ControlServer, Handler, ReplayParams, Reply
from cosyd.publish.journal import Journal
from cosyd.publish.messages import AsrFinal, AsrPartial, State
from cosyd.publish.publisher import Publisher


def final(text: str) -> AsrFinal:
    return AsrFinal(source="mic", utt=1, text=text, start=0.0, end=1.0, reason="silence")


def die_after_the_next_append() -> None:
    append = Journal.append

    def append_and_die(*event: object) -> None:
        append(*event)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)

    Journal.append = append_and_die  # type: ignore[method-assign]


async def many(publisher: Publisher, count: int, size: int, rate: int) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    for number in range(count):
        publisher.publish(AsrPartial(source="mic", utt=number, text="x" * size, start=0.0, end=0.0))
        await asyncio.sleep(max(0.0, start + number / rate - loop.time()))


async def obey(publisher: Publisher, line: str) -> object:
    command, _, rest = line.strip().partition(" ")
    if command == "final":
        return publisher.publish(final(rest))
    if command == "partial":
        return publisher.publish(AsrPartial(source="mic", utt=1, text=rest, start=0.0, end=0.0))
    if command == "die":
        die_after_the_next_append()
        return publisher.publish(final(rest))
    if command == "many":
        await many(publisher, *map(int, rest.split()))
        return "done"
    if command == "subscriptions":
        return publisher.statistics().subscriptions
    if command == "rss":
        return psutil.Process().memory_info().rss
    raise ValueError(line)


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def main(root: Path, config: Config) -> None:
    paths = Paths(root / "models", root / "state", root / "cache", root / "run", root / "keys")
    with Publisher(config, paths) as publisher:

        async def replay(params: ReplayParams) -> Reply:
            return publisher.replay(
                params.since, until=params.until, topics=params.topics, limit=min(params.limit, 7)
            )

        with ControlServer(config, paths, {"replay": Handler(ReplayParams, replay)}) as control:
            publisher.publish(State(source="mic", status="listening"))
            say(f"{publisher.address} {control.address}")
            while (line := await asyncio.to_thread(sys.stdin.readline)) != "":
                say(await obey(publisher, line))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Config.model_validate_json((sys.argv[2:] or ["{}"])[0])))
