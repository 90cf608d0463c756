"""L4S: the delay of each packet in the bottleneck's queue, by flow, from captures at both ends."""
