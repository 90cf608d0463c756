"""Records and tables of the pilot's campaigns: its gain and its cost, and bpftune's."""
