"""Records and tables of campaigns that measure the pilot: its gain and its cost, and bpftune's."""
