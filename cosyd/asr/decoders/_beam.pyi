"""Types of the C extension; ``_beammodule.c`` is its source. All but sizes and numbers are addresses."""

MOST: int

def transducer_pack(
    table: int,
    live: int,
    count: int,
    frame: int,
    encoder_out: int,
    frames: int,
    encoded: int,
    to_encoder: int,
    to_decoder: int,
    /,
) -> int: ...
def transducer_step(
    table: int,
    live: int,
    count: int,
    frame: int,
    logits: int,
    penalty: float,
    temperature: float,
    scratch: int,
    fresh: int,
    /,
) -> int: ...
def ctc_chunk(
    table: int, scores: int, frames: int, counts: int, begin: int, end: int, skip: float, /
) -> None: ...
def unwind(
    notes: int, frames: int, rows: int, width: int, events: int, counts: int, origins: int, /
) -> None: ...
