"""Types of the C extension; ``_beammodule.c`` is its source."""

MOST: int

def transducer_step(
    table: int,
    live: int,
    count: int,
    frame: int,
    logits: int,
    penalty: float,
    temperature: float,
    scratch: int,
    /,
) -> None: ...
def ctc_chunk(
    table: int, scores: int, frames: int, counts: int, begin: int, end: int, skip: float, /
) -> None: ...
