"""From the scores of a network to tokens: greedy and beam searches over a batch of live streams."""
